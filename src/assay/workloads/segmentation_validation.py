"""Validation of a trained segmentation network over many frames, as a job of any launcher."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.program import absolute, program_task
from assay.workloads.workload import Workload, example

METRICS = (
    Metric("throughput", "images/s", "higher", "frames per second of all ranks together, with reading them"),
    Metric("mean_iou", "", "higher", "intersection over union, mean of the classes that are in labels"),
    Metric("pixel_accuracy", "", "higher", "share of pixels that were predicted right"),
)


class SegmentationValidationParams(Params):
    """Run a trained network of `segmentation` over all frames of a manifest.

    The ranks share the frames and print the counts of each chunk, and `assay data validate … --run` adds them
    up by scene, camera and tag. Paths are those on the nodes. How to: docs/how-to/data-validate.md.
    """

    model_config = example(checkpoint="/runs/a2d2/trained.pt", manifest="/data/all.jsonl")

    checkpoint: str = Field(
        description="trained.pt or checkpoint.pt that a training of `segmentation` saved."
    )
    manifest: str = Field(description="Frames chosen by `assay data query`.")
    data: str | None = Field(None, description="The data set's directory; default: as in the manifest.")
    into: str | None = Field(
        None, description="Directory, shared by all ranks, that keeps each chunk for the next try."
    )
    batch_size: int = Field(4, ge=1, description="Frames at once.")
    chunk_frames: int = Field(64, ge=1, description="Frames of a chunk, which one rank computes.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")

    @field_validator("checkpoint", "manifest", "data", "into")
    @classmethod
    def _is_absolute(cls, path: str | None, info: ValidationInfo) -> str | None:
        """Relative to the suite's directory if the context names it, otherwise to the current one."""
        return None if path is None else absolute(path, info)


def _task(params: SegmentationValidationParams, _shape: Shape, _seed: int) -> Task:
    return program_task("assay_payloads.training.validation", params)


SEGMENTATION_VALIDATION = Workload(
    reader=payload_reader("segmentation-validation", SegmentationValidationParams, METRICS),
    about="a trained segmentation network over many frames: counts by true and predicted class",
    task=_task,
)

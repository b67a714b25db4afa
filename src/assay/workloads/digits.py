"""Time to train a small network on handwritten digits to a target accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from assay.errors import InputError
from assay.formats.reader import Params, Reader
from assay.records import Metric, Reading, Shape, Task, TrainingRun
from assay.workloads.training import read_to_target
from assay.workloads.workload import Workload, example, program_task

DATA = "assay_payloads/datasets/digits.csv.gz"
TRAIN_SAMPLES = 1344  # of the 1,797 images; the program's own split

# Multiply-adds per image: 3×3 convolutions 1→16 and 16→32 channels on 8×8 pixels, then 512→10.
# Each is two operations; the backward pass takes twice as many as the forward pass.
TRAINING_FLOPS = 3 * 2 * (64 * 9 * 1 * 16 + 64 * 9 * 16 * 32 + 512 * 10)

TO_TARGET = (
    Metric("time_to_train", "s", "lower", "run_start to run_stop: training and evaluation to the target"),
    Metric(
        "epochs_to_target",
        "epochs",
        None,
        "passes over the training images to reach the target; depends on the seed",
    ),
)
PER_EPOCH = (
    Metric("time_per_epoch", "s", "lower", "one pass over the training images and one evaluation"),
    Metric("throughput", "images/s", "higher", "images trained per second by all ranks, evaluation excluded"),
)


class DigitsParams(Params):
    """Train to a target accuracy with SGD; the batch is split over the ranks.

    The defaults take 7 to 14 epochs, about 3 s on one CPU core, half of which is importing torch.
    """

    model_config = example(target=0.98, global_batch_size=64)

    target: float = Field(0.98, gt=0, le=1, description="Accuracy on the 453 evaluation images, 0 to 1.")
    global_batch_size: int = Field(
        64, ge=1, description="Images per step over all ranks; must divide the 1,344 training images."
    )
    learning_rate: float = Field(0.02, gt=0, description="Learning rate of SGD with momentum 0.9.")
    max_epochs: int = Field(40, ge=1, description="Epochs after which a run gives up.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")

    @field_validator("global_batch_size")
    @classmethod
    def _divides_the_images(cls, size: int) -> int:
        if TRAIN_SAMPLES % size:
            fitting = [n for n in range(1, TRAIN_SAMPLES + 1) if TRAIN_SAMPLES % n == 0]
            nearest = min(fitting, key=lambda n: abs(n - size))
            raise ValueError(f"{size} doesn't divide the {TRAIN_SAMPLES} training images; write {nearest}")
        return size


def _metrics(_params: DigitsParams) -> tuple[Metric, ...]:
    # The time per epoch depends on the system, so it comes first; the number of epochs depends on the seed.
    return (PER_EPOCH[0], *TO_TARGET, PER_EPOCH[1])


def _task(params: DigitsParams, shape: Shape, seed: int) -> Task:
    if params.global_batch_size % shape.ranks:
        size = params.global_batch_size
        raise InputError(f"a global_batch_size of {size} can't be split evenly over {shape.ranks} ranks")
    return program_task("assay_payloads.training.digits", params, seed=seed, data=(DATA,))


def _read(logs: Mapping[str, Path], params: DigitsParams) -> Reading:
    def no_result(training: TrainingRun) -> str:
        reached = [accuracy for _, accuracy in training.evaluations]
        best = f"the best was {max(reached):.4g}" if reached else "there was no evaluation"
        return f"target accuracy {params.target:g} was not reached: {training.status}, {best}"

    return read_to_target(logs, _metrics(params), no_result)


DIGITS = Workload(
    reader=Reader(
        "digits",
        DigitsParams,
        _metrics,
        _read,
        version=2,
        flops=lambda _params: TRAINING_FLOPS,
    ),
    about="train a small network on handwritten digits to a target accuracy: time to train",
    sample="image",
    task=_task,
)

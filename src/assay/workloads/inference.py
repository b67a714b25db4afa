"""MLPerf inference: a model driven by LoadGen in one of its four scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from assay.errors import InputError
from assay.formats.loadgen import printed_run
from assay.formats.mlperf_inference import LoadgenLogParams, metrics_of
from assay.formats.reader import Params, Reader
from assay.records import Metric, Reading, Shape, Task
from assay.workloads import payload_log
from assay.workloads.workload import Workload, example, program_task

ACCURACY = Metric(
    "accuracy",
    "",
    "higher",
    "share of correct classes, F1 of the answers' words, or AP of boxes",
    scales=False,
)
OUTPUTS = (
    "mlperf_log_*",
    "search-*/mlperf_log_*",
)  # LoadGen's four files, from the run and from each search step

Model = Literal[
    "resnet50", "mobilenet", "ssd-mobilenet", "ssd-resnet34", "retinanet", "bert-large", "bert-tiny"
]
_SIZES: Mapping[str, int] = {
    "resnet50": 224,
    "mobilenet": 224,
    "ssd-mobilenet": 320,
    "ssd-resnet34": 300,
    "retinanet": 800,
    "bert-large": 384,
    "bert-tiny": 128,
}
# FLOPs (2 × multiply-adds) to infer one sample of the model's default size: matrix products and convolutions,
# as torch's FlopCounterMode counts them. Published: ResNet-50 8.2 G (MLPerf), MobileNetV2 0.6 G (its paper).
_FLOPS: Mapping[str, float] = {
    "resnet50": 8.18e9,
    "mobilenet": 0.602e9,
    "ssd-mobilenet": 1.166e9,
    "ssd-resnet34": 31.7e9,
    "retinanet": 404e9,
    "bert-large": 246e9,
    "bert-tiny": 0.1175e9,
}


class InferenceParams(Params):
    """A model that answers LoadGen's queries. Settings follow MLPerf's rules unless changed.

    About 5 s on one CPU core: `{model: mobilenet, size: 32, min_duration_s: 1}`. A VALID run shorter than
    600 s is a measurement, but not an MLPerf result.
    """

    model_config = example(model="mobilenet", size=32, min_duration_s=1)

    model: Model = Field(
        "resnet50", description="The network; its weights are random unless `weights` names a file."
    )
    scenario: Literal["SingleStream", "MultiStream", "Server", "Offline"] = Field(
        "SingleStream",
        description="Queries of 1 or 8 samples one after the other, a Poisson process, or all samples at "
        "once.",
    )
    backend: Literal["torch", "onnxruntime"] = Field(
        "torch", description="onnxruntime: the model is exported from torch when the run starts."
    )
    mode: Literal["performance", "accuracy"] = Field(
        "performance",
        description="accuracy: runs every sample of `data` once and scores the answers.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="Of weights and arithmetic.")
    size: int | None = Field(
        None, ge=8, le=4096, description="Height and width of an image, or tokens; default: the model's."
    )
    batch_size: int = Field(1, ge=1, description="Maximum samples in a batch.")
    max_wait_s: float = Field(
        0.0, ge=0, description="Server: how long the first sample of a batch waits for more."
    )
    instances: int = Field(
        1, ge=1, description="Batches that run concurrently: one GPU each, or a share of the CPU's threads."
    )
    compile: bool = Field(False, description="Use torch.compile; batches are padded to powers of two.")
    channels_last: bool = Field(True, description="torch: lay images out as NHWC.")
    warmup: int = Field(3, ge=1, description="Runs of each batch size before LoadGen starts.")
    samples: int = Field(64, ge=1, description="Synthetic samples in LoadGen's library.")
    data: str | None = Field(
        None,
        description="Labeled samples where the job runs: a directory with a folder of images per class; an "
        ".npz file of `images` and `labels`; for boxes, COCO's val2017 or MLPerf's OpenImages in their usual "
        "layout; for BERT, a directory with SQuAD's `dev-v1.1.json` and BERT's `vocab.txt`. Default: "
        "synthetic.",
    )
    weights: str | None = Field(
        None,
        description="File where the job runs: the model's state_dict with its library's names, or a training "
        "checkpoint that holds it as `model`; default: random.",
    )
    target_qps: float | None = Field(
        None,
        gt=0,
        description="Server: queries sent per second; Offline: samples expected per second. Default: Server "
        "searches for the highest VALID rate, and Offline measures its rate.",
    )
    latency_bound_s: float | None = Field(
        None,
        gt=0,
        description="Latency bound of Server at the 99th percentile; default: from the rules for the model.",
    )
    min_duration_s: float = Field(600.0, gt=0, description="LoadGen's minimum; the rules require 600.")
    min_queries: int | None = Field(
        None,
        ge=1,
        description="LoadGen's minimum; in Offline, of samples. Default: as many as early stopping needs; in "
        "Offline the rules' 24,576.",
    )
    search_s: float = Field(60.0, gt=0, description="Server: how long the search tries each rate.")
    search_resolution: float = Field(
        0.02, gt=0, le=1, description="Server: relative precision of the rate that is found."
    )
    seeds: Literal["repeat", "round"] = Field(
        "repeat",
        description="LoadGen's seeds. Default: derived from the repeat's seed, so that repeats differ in "
        "order and arrivals; or those of the round whose mlperf.conf LoadGen carries.",
    )
    trace: bool = Field(False, description="Keep LoadGen's trace of every query.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.target_qps is not None and self.scenario not in ("Server", "Offline"):
            raise ValueError(
                f"{self.scenario} sends queries as fast as they are answered; leave out target_qps"
            )
        if self.mode == "accuracy" and self.data is None:
            raise ValueError("mode accuracy needs data with labels")
        if self.backend == "onnxruntime" and (self.compile or self.precision == "bf16"):
            raise ValueError("onnxruntime supports neither compile nor bf16")
        return self


def _metrics(params: InferenceParams) -> tuple[Metric, ...]:
    if params.mode == "accuracy":
        return (ACCURACY,)
    return metrics_of(LoadgenLogParams(scenario=params.scenario))


def _flops(params: InferenceParams) -> float | None:
    """None unless the size is the model's default: rounding and attention don't scale in proportion."""
    return _FLOPS[params.model] if params.size in (None, _SIZES[params.model]) else None


def _task(params: InferenceParams, shape: Shape, seed: int) -> Task:
    if shape.ranks != 1:
        raise InputError(
            f"workload inference: found shape {shape}; LoadGen drives one process: use shape 1x1, and "
            "`instances` for several GPUs"
        )
    return replace(program_task("assay_payloads.inference.loadgen", params, seed=seed), outputs=OUTPUTS)


def _read(logs: Mapping[str, Path], params: InferenceParams) -> Reading:
    """LoadGen decides: a run that is not VALID has no figure."""
    accuracy = params.mode == "accuracy"
    printed = payload_log.read(logs, (ACCURACY,) if accuracy else ())
    if printed.problems or accuracy:
        return printed
    run = printed_run(logs["rank-0.log"])
    facts = {
        name: value
        for name, value in printed.facts.items()
        if not name.startswith(("result_", "early_stopping_", "generated_"))
    }
    stated = {"scenario": run.scenario, "mode": run.mode, "validity": run.validity}
    return replace(
        printed,
        measurements=run.figures,
        facts=facts | stated,
        problems=(run.problem,) if run.problem else (),
    )


INFERENCE = Workload(
    reader=Reader("inference", InferenceParams, _metrics, _read, flops=_flops),
    about="answer LoadGen's queries in one of MLPerf Inference's scenarios",
    sample="sample",
    task=_task,
)

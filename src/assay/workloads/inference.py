"""MLPerf inference: a model driven by LoadGen in one of its four scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from assay.errors import InputError
from assay.logs.loadgen import printed_run
from assay.readers import Reader, payload_log
from assay.readers.loadgen_log import LoadgenLogParams, metrics_of
from assay.readers.reader import Params
from assay.records import Metric, Reading, Shape, Task
from assay.workloads.program import program_task
from assay.workloads.workload import Workload

ACCURACY = Metric(
    "accuracy",
    "",
    "higher",
    "share of right classes, F1 of the answers' words, or AP of boxes",
    scales=False,
)
OUTPUTS = ("mlperf_log_*", "search-*/mlperf_log_*")  # LoadGen's four files, of the run and of each try

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
# FLOPs (2 × multiply-adds) to infer one sample of the model's own size: matrix products and convolutions, as
# torch's FlopCounterMode counts them. Published: ResNet-50 8.2 G (MLPerf), MobileNetV2 0.6 G (its paper).
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
    """A model that answers LoadGen's queries, with settings that are the rules' own unless changed.

    On one CPU core, about 5 s: `{model: mobilenet, size: 32, min_duration_s: 1}`. Shorter than 600 s a VALID
    run is a measurement and no result of MLPerf.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "mobilenet", "size": 32, "min_duration_s": 1}]}
    )

    model: Model = Field("resnet50", description="The network; weights are random unless a file gives them.")
    scenario: Literal["SingleStream", "MultiStream", "Server", "Offline"] = Field(
        "SingleStream",
        description="Queries of 1 or of 8 samples one after the other, a Poisson process, or all samples at "
        "once.",
    )
    backend: Literal["torch", "onnxruntime"] = Field(
        "torch", description="onnxruntime: the model is exported from torch when the run begins."
    )
    mode: Literal["performance", "accuracy"] = Field(
        "performance",
        description="accuracy: every sample of `data` once, and what the answers are worth.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="Of weights and arithmetic.")
    size: int | None = Field(
        None, ge=8, le=4096, description="Height and width of an image, or tokens; default: the model's own."
    )
    batch_size: int = Field(1, ge=1, description="Samples that run together at most.")
    max_wait_s: float = Field(
        0.0, ge=0, description="Server: how long the first sample of a batch waits for others."
    )
    instances: int = Field(
        1, ge=1, description="Batches that run at a time: one GPU each, or a share of the CPU's threads."
    )
    compile: bool = Field(False, description="torch.compile; batches are filled up to powers of two.")
    channels_last: bool = Field(True, description="torch: lay images out as NHWC.")
    warmup: int = Field(3, ge=1, description="Runs of each batch size before LoadGen starts.")
    samples: int = Field(64, ge=1, description="Synthetic samples in LoadGen's library.")
    data: str | None = Field(
        None,
        description="Labelled samples where the job runs: a directory with a folder of images a class, an "
        ".npz file of `images` and `labels`, for boxes COCO's val2017 or MLPerf's OpenImages as they lie, or "
        "for BERT a directory of SQuAD's `dev-v1.1.json` and BERT's `vocab.txt`; default: synthetic samples.",
    )
    weights: str | None = Field(
        None,
        description="File where the job runs: the model's state_dict as its library names it, or the "
        "checkpoint of a training, which holds it as `model`; default: random.",
    )
    target_qps: float | None = Field(
        None,
        gt=0,
        description="Server: queries a second that are sent; Offline: samples a second that are expected. "
        "Default: Server's highest VALID rate is searched for, Offline's is measured.",
    )
    latency_bound_s: float | None = Field(
        None, gt=0, description="Server's, at the 99th percentile; default: the rules' for the model."
    )
    min_duration_s: float = Field(600.0, gt=0, description="LoadGen's minimum; the rules ask for 600.")
    min_queries: int | None = Field(
        None,
        ge=1,
        description="LoadGen's minimum, of samples in Offline; default: as many as early stopping needs, in "
        "Offline the rules' 24,576.",
    )
    search_s: float = Field(60.0, gt=0, description="Server: duration of each rate that is tried.")
    search_resolution: float = Field(0.02, gt=0, le=1, description="Server: share that the rate is found to.")
    seeds: Literal["repeat", "round"] = Field(
        "repeat",
        description="LoadGen's: from the repeat's seed, so that repeats differ in order and "
        "arrivals; or those of the round whose mlperf.conf LoadGen carries.",
    )
    trace: bool = Field(False, description="Keep LoadGen's trace of every query.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.target_qps is not None and self.scenario not in ("Server", "Offline"):
            raise ValueError(f"{self.scenario} sends as fast as it is answered; leave out target_qps")
        if self.mode == "accuracy" and self.data is None:
            raise ValueError("mode accuracy needs data with labels")
        if self.backend == "onnxruntime" and (self.compile or self.precision == "bf16"):
            raise ValueError("onnxruntime takes neither compile nor bf16")
        return self


def _metrics(params: InferenceParams) -> tuple[Metric, ...]:
    if params.mode == "accuracy":
        return (ACCURACY,)
    return metrics_of(LoadgenLogParams(scenario=params.scenario))


def _flops(params: InferenceParams) -> float | None:
    """None at another size than the model's own: rounding, and attention, don't grow in proportion."""
    return _FLOPS[params.model] if params.size in (None, _SIZES[params.model]) else None


def _task(params: InferenceParams, shape: Shape, seed: int) -> Task:
    if shape.ranks != 1:
        raise InputError(
            f"workload inference: found shape {shape}; LoadGen drives one process: use 1x1, and instances "
            "for several GPUs"
        )
    return replace(program_task("assay_payloads.inference.loadgen", params, seed=seed), outputs=OUTPUTS)


def _read(logs: Mapping[str, Path], params: InferenceParams) -> Reading:
    """LoadGen's own verdict stands: what is not VALID has no figure."""
    accuracy = params.mode == "accuracy"
    printed = payload_log.read(logs, (ACCURACY,) if accuracy else ())
    if printed.problems or accuracy:
        return printed
    found = printed_run(logs["rank-0.log"])
    facts = {
        name: value
        for name, value in printed.facts.items()
        if not name.startswith(("result_", "early_stopping_", "generated_"))
    }
    said = {"scenario": found.scenario, "mode": found.mode, "validity": found.validity}
    return replace(
        printed,
        measurements=found.figures,
        facts=facts | said,
        problems=(found.problem,) if found.problem else (),
    )


INFERENCE = Workload(
    reader=Reader("inference", InferenceParams, _metrics, _read, flops=_flops),
    about="answer LoadGen's queries in one of MLPerf inference's scenarios",
    sample="sample",
    task=_task,
)

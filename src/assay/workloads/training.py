"""What all training workloads share: parameters, the job that they become, and how their logs are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from assay.errors import InputError
from assay.formats.mlperf import training_run
from assay.formats.reader import Params, Reader
from assay.records import FRAMES_FILE, Metric, Reading, Shape, Task, TrainingRun
from assay.workloads import payload_log
from assay.workloads.data import Choose
from assay.workloads.workload import Workload, absolute, program_task

TRACE = "trace.json.gz"  # the name that the program's profiler gives it
STEP_TIME = Metric("step_time", "s", "lower", "one training step on the slowest rank", scales=False)
PER_EPOCH = Metric("time_per_epoch", "s", "lower", "run_start to run_stop over epochs: evaluation included")
TO_TARGET = (
    Metric("time_to_train", "s", "lower", "run_start to run_stop: training and evaluation to the target"),
    Metric(
        "epochs_to_target", "epochs", None, "passes over the data to reach the target; depends on the seed"
    ),
)
DATA_WAIT = Metric(
    "data_wait",
    "",
    "lower",
    "share of training-step time spent waiting for the next batch",
    scales=False,
)
OPERATOR_TIME = Metric(
    "operator_time", "s", None, "time of one operator in one step, for the slowest operators", scales=False
)
READ_RATE = Metric("read_rate", "B/s", "higher", "stored bytes read per second by all ranks together")

_LOG: Final = "rank-0.log"


class TrainingParams(Params):
    """Parameters of every training workload; each adds its own."""

    mode: Literal["synthetic", "real", "data-only"] = Field(
        "synthetic",
        description="synthetic: throughput on one batch made on the device. real: train on the data set to "
        "the target. data-only: read and decode batches without training.",
    )
    data: str | None = Field(
        None, description="Absolute path of the data set on the nodes, for `real` and `data-only`."
    )
    batch_size: int = Field(32, ge=1, description="Samples in each rank's micro-batch.")
    global_batch_size: int | None = Field(
        None,
        ge=1,
        description="Samples per step; gradients of micro-batches are accumulated up to it. Default: one "
        "micro-batch on each rank.",
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = Field(
        "fp32",
        description="Number format of the arithmetic; bf16 and fp16 use autocast, with weights in fp32.",
    )
    channels_last: bool = Field(True, description="Lay images out as NHWC, which most devices prefer.")
    learning_rate: float = Field(0.01, gt=0, description="Peak learning rate of the optimizer.")
    steps: int = Field(100, ge=1, description="Measured steps, in `synthetic` and `data-only` mode.")
    warmup: int = Field(10, ge=0, description="Warm-up steps before them, not counted.")
    window: int = Field(10, ge=1, description="Steps between readings of the clock and the loss.")
    max_epochs: float = Field(1.0, gt=0, description="Epochs after which training ends in `real` mode.")
    max_steps: int | None = Field(None, ge=1, description="Steps after which it ends, instead of epochs.")
    target: float | None = Field(
        None, description="Quality at which training ends in `real` mode; default: train for all epochs."
    )
    eval_every: float = Field(1.0, gt=0, description="Epochs between evaluations.")
    first_eval: float = Field(0.0, ge=0, description="Epochs of training before the first evaluation.")
    division: Literal["closed", "open"] = Field("open", description="MLPerf division, as stated in the log.")
    deterministic: bool = Field(False, description="Use kernels that always add in the same order.")
    profile: int = Field(
        0,
        ge=0,
        description="Steps to profile with torch.profiler: keeps the trace and reports the longest "
        "operators. In `synthetic` mode they run before the timed steps; in `real` mode they are among them "
        "and slow them.",
    )
    checkpoint: str | None = Field(
        None,
        description="Absolute path of a directory on the nodes where a training in `real` mode saves and "
        "resumes checkpoints, shared by all ranks. `{shape}` and `{seed}` in it become the trial's own, so "
        "that each trial of a suite has its own directory: /data/checkpoints/{shape}-{seed}. A resumed run "
        "has no time to train: its log lacks the time before. The network that it ends with is trained.pt "
        "there.",
    )
    checkpoint_every: int = Field(1000, ge=1, description="Steps between checkpoints.")
    clear_caches: bool = Field(
        False,
        description="Drop the kernel's file caches before reading data, as MLPerf requires; needs root.",
    )
    workers: int = Field(4, ge=0, description="Decoding processes per rank; 0: the rank itself decodes.")
    prefetch: int = Field(2, ge=1, description="Batches that each of them decodes ahead.")
    compile: bool = Field(False, description="Compile the model with torch.compile.")
    cuda_graphs: bool = Field(
        False, description="Record a step once and replay it; in `synthetic` mode, on one GPU."
    )
    keep_memory: bool = Field(True, description="On a CPU: keep the memory that tensors free, in huge pages.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")

    @field_validator("data", "checkpoint")
    @classmethod
    def _is_absolute(cls, path: str | None, info: ValidationInfo) -> str | None:
        """Relative to the suite's directory if the context names it, otherwise to the current one."""
        return None if path is None else absolute(path, info)

    @model_validator(mode="after")
    def _has_data_to_read(self) -> Self:
        if self.mode != "synthetic" and self.data is None:
            raise ValueError(f"mode {self.mode} reads a data set; name its directory as data")
        if self.mode == "data-only" and self.profile:
            raise ValueError("profile needs training steps, and mode data-only has none")
        return self


Own = TypeVar("Own", bound=TrainingParams)


def training_workload(
    name: str,
    about: str,
    program: str,
    params: type[Own],
    *,
    sample: str,
    samples: str,
    flops: Callable[[Own], float | None],
    round_: str,
    version: int = 1,
    choose: Callable[[Own], Choose | None] = lambda _params: None,
) -> Workload:
    """A workload that shares the training loop of assay_payloads/training/.

    program  module of assay_payloads
    sample   what throughput counts, singular: `patch`
    samples  plural: `patches`
    flops    FLOPs to train on one sample; None if unknown. Not called for data-only, which trains nothing
    round_   MLPerf round whose rules the log of a real training follows
    choose   the frames that its program reads from a manifest, if parameters choose them from a catalog

    The other parameters are as in `Reader` and `Workload`.
    """

    def metrics(own: Own) -> tuple[Metric, ...]:
        return training_metrics(own, samples)

    def trained_flops(own: Own) -> float | None:
        return None if own.mode == "data-only" else flops(own)

    def task(own: Own, shape: Shape, seed: int) -> Task:
        return _task(program, own, shape, seed, choose(own))

    def read(logs: Mapping[str, Path], own: Own) -> Reading:
        return read_training(logs, own, metrics(own), round_)

    reader = Reader(name, params, metrics, read, version, trained_flops)
    return Workload(reader, about, task, sample)


def _task(program: str, params: TrainingParams, shape: Shape, seed: int, choose: Choose | None) -> Task:
    """The job of a training workload."""
    micro = params.batch_size * shape.ranks
    if params.global_batch_size is not None and params.global_batch_size % micro:
        raise InputError(
            f"a global_batch_size of {params.global_batch_size} is not a multiple of batches of "
            f"{params.batch_size} on {shape.ranks} ranks; write a multiple of {micro}"
        )
    if params.checkpoint is not None:
        own = params.checkpoint.replace("{shape}", str(shape)).replace("{seed}", str(seed))
        params = params.model_copy(update={"checkpoint": own})
    outputs = (TRACE,) if params.profile else ()
    task = replace(program_task(program, params, seed=seed, without=("choose",)), outputs=outputs)
    if choose is None:
        return task
    return replace(task, argv=(*task.argv, "--manifest", FRAMES_FILE), frames=choose.choice())


def training_metrics(params: TrainingParams, sample: str) -> tuple[Metric, ...]:
    """What a training workload reports in its mode, the primary metric first.

    sample  plural: `images`
    """
    rate = Metric("throughput", f"{sample}/s", "higher", f"{sample} trained per second by all ranks together")
    operators = (OPERATOR_TIME,) if params.profile else ()
    if params.mode == "synthetic":
        return (rate, STEP_TIME, *operators)
    if params.mode == "data-only":
        read = replace(rate, about=f"{sample} read and decoded per second by all ranks together")
        return (read, STEP_TIME, READ_RATE)
    to_target = TO_TARGET if params.target is not None else TO_TARGET[:1]
    # The time per epoch depends on the system, so it comes first; the number of epochs depends on the seed.
    return (PER_EPOCH, *to_target, rate, DATA_WAIT, *operators)


def read_training(
    logs: Mapping[str, Path], params: TrainingParams, metrics: Sequence[Metric], round_: str
) -> Reading:
    """What the logs of a training say; a real training is also read by the rules of its MLPerf round."""
    if params.mode != "real":
        return payload_log.read(logs, metrics)
    return read_to_target(logs, metrics, lambda training: _no_result(training, params.target), round_)


def read_to_target(
    logs: Mapping[str, Path],
    metrics: Sequence[Metric],
    no_result: Callable[[TrainingRun], str],
    round_: str | None = None,
) -> Reading:
    """A training by MLPerf's rules. A training that fails has a speed, but no time to target.

    no_result  why a training has no time to train
    """
    if _LOG not in logs:
        return payload_log.read(logs, metrics)
    training = training_run(logs[_LOG], round_=round_)
    if training.status == "success":
        return replace(payload_log.read(logs, metrics), training=training)
    to_target = {metric.name for metric in TO_TARGET}
    reading = payload_log.read(logs, [metric for metric in metrics if metric.name not in to_target])
    return replace(reading, training=training, problems=(no_result(training), *reading.problems))


def _no_result(training: TrainingRun, target: float | None) -> str:
    if training.status in ("invalid", "unfinished"):
        return training.problem
    reached = [quality for _, quality in training.evaluations]
    progress = (
        f"evaluations reached {', '.join(f'{x:.4g}' for x in reached[-5:])}" if reached else "no evaluation"
    )
    return f"target {target:g} was not reached: {training.status}, {progress}"

"""What all training workloads have in common: parameters, and the job that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from assay.errors import InputError
from assay.readers import Reader
from assay.readers.reader import Params
from assay.readers.training import read_training, training_metrics
from assay.records import Metric, Reading, Shape, Task
from assay.workloads.program import program_task
from assay.workloads.workload import Workload

TRACE = "trace.json.gz"  # as the profiler of the program names it


class TrainingParams(Params):
    """What every training workload takes; each adds its own."""

    mode: Literal["synthetic", "real", "data-only"] = Field(
        "synthetic",
        description="synthetic: throughput on one batch made on the device. real: the data set, to the "
        "target. data-only: its batches are read and decoded and nothing is trained.",
    )
    data: str | None = Field(
        None, description="Directory of the data set on the nodes, for real and data-only; absolute."
    )
    batch_size: int = Field(32, ge=1, description="Samples of a micro batch on each rank.")
    global_batch_size: int | None = Field(
        None,
        ge=1,
        description="Samples of a step; gradients of micro batches are accumulated up to it. Default: one "
        "micro batch on each rank.",
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = Field(
        "fp32", description="Number format of the arithmetic; bf16 and fp16 by autocast, weights in fp32."
    )
    channels_last: bool = Field(True, description="Lay images out as NHWC, which most devices prefer.")
    learning_rate: float = Field(0.01, gt=0, description="Of the optimiser, at its highest.")
    steps: int = Field(100, ge=1, description="Steps that count, in synthetic and data-only.")
    warmup: int = Field(10, ge=0, description="Steps before them that don't count.")
    window: int = Field(10, ge=1, description="Steps between two readings of the clock and of the loss.")
    max_epochs: float = Field(1.0, gt=0, description="Epochs after which a real training ends.")
    max_steps: int | None = Field(None, ge=1, description="Steps after which it ends, instead of epochs.")
    target: float | None = Field(
        None, description="Quality at which a real training ends; without one it ends with its last epoch."
    )
    eval_every: float = Field(1.0, gt=0, description="Epochs between two evaluations.")
    first_eval: float = Field(0.0, ge=0, description="Epochs that are trained before the first of them.")
    division: Literal["closed", "open"] = Field("open", description="MLPerf's, as the log states it.")
    deterministic: bool = Field(False, description="Kernels that always add in the same order.")
    profile: int = Field(
        0,
        ge=0,
        description="Steps that torch.profiler watches: its trace is kept, the longest operators reported. "
        "In synthetic they lie before the timed ones; in real they are among them and slow them.",
    )
    checkpoint: str | None = Field(
        None,
        description="Directory on the nodes that a real training is kept in and resumed from, one for all "
        "ranks; absolute. A resumed run gives no time to train: its log lacks the time before.",
    )
    checkpoint_every: int = Field(1000, ge=1, description="Steps between two checkpoints.")
    clear_caches: bool = Field(
        False,
        description="Drop the kernel's file caches before data are read, as MLPerf asks for: takes root.",
    )
    workers: int = Field(4, ge=0, description="Processes of each rank that decode; 0: the rank itself.")
    prefetch: int = Field(2, ge=1, description="Batches that each of them decodes ahead.")
    compile: bool = Field(False, description="Compile the model by torch.compile.")
    cuda_graphs: bool = Field(
        False, description="Record a step once and replay it: in synthetic, on one GPU."
    )
    keep_memory: bool = Field(True, description="On a CPU: what tensors free is kept, in huge pages.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")

    @field_validator("data", "checkpoint")
    @classmethod
    def _is_absolute(cls, path: str | None, info: ValidationInfo) -> str | None:
        """From the suite's directory where the context names it, else from the current one."""
        if path is None:
            return None
        start = (info.context or {}).get("directory", "")
        return str(Path(start, Path(path).expanduser()).absolute())

    @model_validator(mode="after")
    def _has_data_to_read(self) -> Self:
        if self.mode != "synthetic" and self.data is None:
            raise ValueError(f"mode {self.mode} reads a data set; name its directory as data")
        if self.mode == "data-only" and self.profile:
            raise ValueError("profile watches training steps, and mode data-only has none")
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
) -> Workload:
    """A workload that shares the training loop of assay_payloads/training/.

    program  module of assay_payloads
    sample   what its throughput counts, one of them: `patch`
    samples  several: `patches`
    flops    FLOPs to train on one; None where unknown. Of data-only, where nothing is trained, it isn't asked
    round_   of MLPerf, whose rules the log of a real training follows

    The others as `Reader` and `Workload` have them.
    """

    def metrics(asked: Own) -> tuple[Metric, ...]:
        return training_metrics(asked, samples)

    def trained_flops(asked: Own) -> float | None:
        return None if asked.mode == "data-only" else flops(asked)

    def task(asked: Own, shape: Shape, seed: int) -> Task:
        return _task(program, asked, shape, seed)

    def read(logs: Mapping[str, Path], asked: Own) -> Reading:
        return read_training(logs, asked, metrics(asked), round_)

    reader = Reader(name, params, metrics, read, version, trained_flops)
    return Workload(reader, about, task, sample)


def _task(program: str, params: TrainingParams, shape: Shape, seed: int) -> Task:
    """The job of a training workload."""
    micro = params.batch_size * shape.ranks
    if params.global_batch_size is not None and params.global_batch_size % micro:
        raise InputError(
            f"a global_batch_size of {params.global_batch_size} can't be made of batches of "
            f"{params.batch_size} on {shape.ranks} ranks; write a multiple of {micro}"
        )
    outputs = (TRACE,) if params.profile else ()
    return replace(program_task(program, params, seed=seed), outputs=outputs)

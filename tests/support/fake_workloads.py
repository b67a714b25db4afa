"""Two workloads and a launcher's options, small enough to reason about, for tests of suites and plans."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from assay.formats.reader import Reader
from assay.records import Metric, Reading, Shape, Task, TaskFile
from assay.workloads.workload import Workload


class TrainParams(BaseModel):
    """Shaped like a training's."""

    model_config = ConfigDict(extra="forbid")

    batch_size: int = Field(default=32, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"
    rate: float = 0.1
    name: str = "a"


class SweepParams(BaseModel):
    """Shaped like a communication benchmark's: one of its parameters is itself a list."""

    model_config = ConfigDict(extra="forbid")

    sizes: tuple[int, ...] = (1024, 2048)
    bidirectional: bool = False


class LocalOptions(BaseModel):
    """Shaped like a launcher's options."""

    model_config = ConfigDict(extra="forbid")
    max_nodes: ClassVar[int | None] = 1

    python: str | None = None
    env: dict[str, str] = Field(default_factory=dict)


def _train_task(params: TrainParams, shape: Shape, seed: int) -> Task:
    argv = ("{python}", "train.py", f"--batch={params.batch_size}", f"--seed={seed}")
    return Task(argv, {"RATE": str(params.rate)}, (TaskFile("train.py", b"print(1)\n"),))


def _sweep_task(params: SweepParams, shape: Shape, seed: int) -> Task:
    if shape.ranks < 2:
        raise ValueError("one rank moves nothing")
    return Task(("{python}", "sweep.py", *map(str, params.sizes)))


def _reader(name: str, params: type[BaseModel], *metrics: Metric) -> Reader:
    return Reader(name, params, lambda params: metrics, lambda logs, params: Reading())


TRAIN = Workload(
    _reader(
        "train",
        TrainParams,
        Metric("throughput", "images/s", "higher", "Samples a second."),
        Metric("step_time", "s", "lower", "Seconds a step."),
    ),
    about="Trains.",
    task=_train_task,
)
SWEEP = Workload(
    _reader("sweep", SweepParams, Metric("busbw", "B/s", "higher", "Bus bandwidth.")),
    about="Moves bytes.",
    task=_sweep_task,
)
WORKLOADS = {"train": TRAIN, "sweep": SWEEP}
PARAMS = {name: workload.params for name, workload in WORKLOADS.items()}
LAUNCHERS: dict[str, type[BaseModel]] = {"local": LocalOptions}

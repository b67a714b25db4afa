"""What a reader is: how the logs of a run become measurements, nothing of how the run is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from assay.records import Metric, Reading


class Params(BaseModel):
    """Parameters of a run: unknown keys are refused, values don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Reader:
    """How the logs of one kind of run are read.

    name       as a run names it: its `trial.workload`
    params     pydantic model of the run's parameters, unknown keys refused: those of its workload, or what
               `assay import` noted of logs that others made
    metrics    what the run reports for these parameters, the primary one first
    read       from the run's log files (name → path) and parameters, what was measured. Never raises on
               what a log holds: what is wrong with it goes into `Reading.problems`
    version    of `read`: raised when the same log would be read differently
    flops      FLOPs to train on (or process) one sample with these parameters; None where unknown
    """

    name: str
    params: type[BaseModel]
    metrics: Callable[[Any], tuple[Metric, ...]]
    read: Callable[[Mapping[str, Path], Any], Reading]
    version: int = 1
    flops: Callable[[Any], float | None] = lambda _params: None

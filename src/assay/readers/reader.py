"""What a reader is: how the logs of a run become measurements, independent of how the run is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from assay.records import Metric, Reading


class Params(BaseModel):
    """Parameters of a run: unknown keys are rejected, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most models are never used


@dataclass(frozen=True)
class Reader:
    """How the logs of one kind of run are read.

    name       its name in a run: `trial.workload`
    params     pydantic model of the run's parameters, which rejects unknown keys: those of its workload, or
               what `assay import` noted about imported logs
    metrics    what the run reports for these parameters, the primary metric first
    read       measurements from the run's log files (name → path) and parameters. Never raises on the
               contents of a log: errors go into `Reading.problems`
    version    of `read`; increase it when the same log would be read differently
    flops      FLOPs to train on (or process) one sample with these parameters; None if unknown
    """

    name: str
    params: type[BaseModel]
    metrics: Callable[[Any], tuple[Metric, ...]]
    read: Callable[[Mapping[str, Path], Any], Reading]
    version: int = 1
    flops: Callable[[Any], float | None] = lambda _params: None

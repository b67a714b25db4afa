"""What a workload is: the description of a program, nothing of how it is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay.records import Metric, Reading, Shape, Task


@dataclass(frozen=True)
class Workload:
    """One file in this room makes one of these; `WORKLOADS` lists them by name.

    name       as the suite writes it
    about      one line for people
    params     pydantic model of the parameters, defaults and bounds in it, unknown keys refused
    metrics    what it reports for these parameters, the primary one first
    sample     what one sample is: `image`, `token`; "" where there is none
    flops      FLOPs to train on (or process) one sample with these parameters; None where unknown
    task       the command, environment and files that every rank runs for these parameters, shape and seed
    read       from the run's log files (name → path) and parameters, what was measured. Never raises on
               what a log holds: what is wrong with it goes into `Reading.problems`
    version    of `read`: raised when the same log would be read differently
    timed_s    seconds for which these parameters have a rank measure, start-up not counted; None where they
               set no time
    """

    name: str
    about: str
    params: type[BaseModel]
    metrics: Callable[[Any], tuple[Metric, ...]]
    sample: str
    flops: Callable[[Any], float | None]
    task: Callable[[Any, Shape, int], Task]
    read: Callable[[Mapping[str, Path], Any], Reading]
    version: int = 1
    timed_s: Callable[[Any], float | None] = lambda _params: None

"""What a workload is: the description of a program, nothing of how it is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from assay.readers import Reader
from assay.records import Shape, Task


@dataclass(frozen=True)
class Workload:
    """A reader whose runs Assay can make; one file in this room makes one, `WORKLOADS` lists them by name.

    reader     how its logs are read, with its name and parameters
    about      one line for people
    task       the command, environment and files that every rank runs for these parameters, shape and seed
    sample     what one sample is, where the reader knows its FLOPs: `image`, `token`
    timed_s    seconds for which these parameters have a rank measure, start-up not counted; None where they
               set no time
    """

    reader: Reader
    about: str
    task: Callable[[Any, Shape, int], Task]
    sample: str = ""
    timed_s: Callable[[Any], float | None] = lambda _params: None

    @property
    def name(self) -> str:
        """As the suite writes it, and as its runs name their reader."""
        return self.reader.name

    @property
    def params(self) -> type[BaseModel]:
        """Model of its parameters, defaults and bounds in it, unknown keys refused."""
        return self.reader.params

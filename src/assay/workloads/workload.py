"""What a workload is: the description of a program, independent of how it is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from assay.formats.reader import Reader
from assay.records import Shape, Task


def example(**params: Any) -> ConfigDict:
    """The configuration of a model of parameters that has these as its example, in JSON's types."""
    return ConfigDict(json_schema_extra={"examples": [params]})


@dataclass(frozen=True)
class Workload:
    """A reader whose runs Assay can start. `WORKLOADS` lists them by name.

    reader     how its logs are read, with its name and parameters
    about      one-line description for people
    task       the command, environment, and files of every rank for these parameters, shape, and seed
    sample     what one sample is, if the reader knows its FLOPs: `image`, `token`
    timed_s    seconds that a rank measures with these parameters, excluding start-up; None if they
               set no time
    """

    reader: Reader
    about: str
    task: Callable[[Any, Shape, int], Task]
    sample: str = ""
    timed_s: Callable[[Any], float | None] = lambda _params: None

    @property
    def name(self) -> str:
        """Its name in a suite, and the name of the reader in its runs."""
        return self.reader.name

    @property
    def params(self) -> type[BaseModel]:
        """Model of its parameters with defaults and bounds; it rejects unknown keys."""
        return self.reader.params

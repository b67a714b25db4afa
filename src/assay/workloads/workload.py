"""What a workload is, and how one of Assay's programs becomes its task."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo

from assay import payload_files
from assay.formats.reader import Reader
from assay.inputs import from_home, read_whole
from assay.records import Metric, Shape, Task, TaskFile


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


def program_task(
    program: str,
    params: BaseModel,
    *,
    seed: int | None = None,
    data: Sequence[str] = (),
    without: Collection[str] = (),
) -> Task:
    """Run `program` with every parameter as the option of the same name.

    program  module of assay_payloads, or of a plug-in's package of programs, by its full name; it travels
             with the job, together with what it imports of that package and of assay_payloads
    seed     passed as `--seed` if the program has one
    data     further files to send with it, by their paths, such as `assay_payloads/…`
    without  parameters that the program doesn't take

    A parameter that is None is not passed, so the program decides.
    """
    argv = ["{python}", "-m", program]
    for name, value in params.model_dump().items():
        if value is not None and name not in without:
            argv += _option(name.replace("_", "-"), value)
    if seed is not None:
        argv += ["--seed", str(seed)]
    needed = payload_files.files(program) | {path: payload_files.source(path) for path in data}
    return Task(argv=tuple(argv), files=tuple(TaskFile(path, file) for path, file in needed.items()))


def absolute(path: str, info: ValidationInfo) -> str:
    """`path` relative to the suite's directory if the context names it, otherwise to the current one."""
    start = (info.context or {}).get("directory", "")
    return str(Path(start, from_home(path)).absolute())


def content(path: str) -> bytes:
    """A user's file to send with the job. Raises InputError if it can't be read."""
    return read_whole(Path(path))


def _option(name: str, value: bool | float | str | tuple[object, ...] | dict[str, object]) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, tuple):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]


PEAK_RSS = Metric(
    "peak_rss",
    "B",
    "lower",
    "Resident memory of the largest of the run's processes, at its peak, as the kernel counts it",
    scales=False,
)
WALL_TIME = Metric(  # only if the workload says so
    "wall_time", "s", "lower", "Time from the start of the run's ranks to the end of the last of them"
)

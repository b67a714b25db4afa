"""How one of Assay's programs becomes a task: its file, its data, and its parameters as options."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationInfo

from assay import payload_files
from assay.inputs import from_home, read_whole
from assay.records import Task, TaskFile


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

"""A workload for tests: a line of Python that each rank runs; `v NUMBER` in its log is a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from assay.formats.reader import Reader
from assay.records import Measurement, Metric, Reading, Shape, Task
from assay.workloads import PLACES, Workload


class Script(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    outputs: tuple[str, ...] = ()
    env: dict[str, str] = {}


def _task(params: Script, shape: Shape, seed: int) -> Task:
    return Task(("{python}", "-c", params.code), env=params.env, outputs=params.outputs)


def _read(logs: Mapping[str, Path], params: Script) -> Reading:
    found = tuple(
        Measurement("v", float(line.split()[1]), "x/s", {}, name, number)
        for name, path in logs.items()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if line.startswith("v ")
    )
    return Reading(found, problems=() if found else ("it printed no v",))


SCRIPT = Workload(
    Reader("script", Script, lambda _: (Metric("v", "x/s", "higher", "what it printed"),), _read),
    about="A line of Python.",
    task=_task,
)

if __name__ == "__main__":  # `assay` with this workload, for tests that kill it
    from assay.cli import main

    PLACES["script"] = "__main__:SCRIPT"
    main()

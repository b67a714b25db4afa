"""systems.yaml → the systems by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay import redact
from assay.errors import Problem
from assay.records import Price
from assay.suite import document
from assay.suite.document import Document
from assay.suite.findings import checked, shown, unknown
from assay.suite.model import System

THIS_MACHINE = "local"  # a system that needs no entry, if a launcher with that name exists
FILE_NAME = "systems.yaml"
_OF_EVERY_LAUNCHER = ("launcher", "price", "params")


def read_file(suite_path: Path, systems_path: Path | None) -> Document:
    """The named file, or else systems.yaml next to the suite, or else an empty one without a name."""
    if systems_path is not None:
        return document.read(systems_path)
    beside = suite_path.parent / FILE_NAME
    return document.read(beside) if beside.exists() else Document("", {})


def written_names(file: Document) -> Sequence[str]:
    """The names in the file, usable or not."""
    return list(file.data) if isinstance(file.data, dict) else []


def systems(
    file: Document, launchers: Mapping[str, type[BaseModel]]
) -> tuple[dict[str, System], list[Problem]]:
    """Every system that can be used, including `local` if it is not defined; and all problems."""
    problems = list(file.problems)
    if file.data is not None and not isinstance(file.data, dict):
        expected = "a mapping, such as here: {launcher: local}"
        problems.append(Problem(file.where(), f"found {shown(file.data)}; expected {expected}"))
    by_name: dict[str, System] = {}
    for name in written_names(file):
        system, wrong = _system(name, file.data[name], file, launchers)
        problems += file.others(wrong)
        if system is not None:
            by_name[name] = system
    if THIS_MACHINE in launchers and THIS_MACHINE not in written_names(file):
        by_name[THIS_MACHINE] = System(THIS_MACHINE, THIS_MACHINE, launchers[THIS_MACHINE]())
    return by_name, problems


def _system(
    name: str, entry: Any, file: Document, launchers: Mapping[str, type[BaseModel]]
) -> tuple[System | None, list[Problem]]:
    if (called := redact.shown_name(str(name))) != str(name):
        what = f"the name {called!r} contains a secret, which directories would show; rename it"
        return None, [Problem(file.where(name), what)]
    if not isinstance(entry, dict):
        what = f"{name}: found {shown(entry)}; expected a mapping, such as {{launcher: local}}"
        return None, [Problem(file.where(name), what)]
    launcher = entry.get("launcher")
    if not isinstance(launcher, str) or launcher not in launchers:
        choice = f"choose from {', '.join(sorted(launchers))}"
        problem = (
            f"this key is missing; {choice}" if launcher is None else unknown("launcher", launcher, launchers)
        )
        return None, [Problem(file.where(name, "launcher"), f"{name}.launcher: {problem}")]
    options = {key: value for key, value in entry.items() if key not in _OF_EVERY_LAUNCHER}
    launcher_options, problems = checked(launchers[launcher], options, file.where, (name,))
    try:
        price = Price.parse(entry["price"]) if "price" in entry else None
    except ValueError as error:
        return None, [*problems, Problem(file.where(name, "price"), f"{name}.price: {error}")]
    params = entry.get("params", {})
    if not isinstance(params, dict):
        what = f"{name}.params: found {shown(params)}; expected a mapping of parameters, such as {{size: 8}}"
        return None, [*problems, Problem(file.where(name, "params"), what)]
    if launcher_options is None:
        return None, problems
    return System(name, launcher, launcher_options, price, params), problems

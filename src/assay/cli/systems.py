"""A system by its name in systems.yaml, for commands that take one without a suite."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.errors import InputError

if TYPE_CHECKING:
    from assay.launch.kubernetes.options import KubernetesSystem
    from assay.suite.model import System

SYSTEMS = click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds the system.  [default: systems.yaml here]",
)


def named(name: str | None, file: Path | None) -> System:
    """The system of this name; without a name this machine. Raises InputError where there is none."""
    from assay.suite.findings import unknown
    from assay.suite.systems import FILE_NAME, THIS_MACHINE

    path = file or Path(FILE_NAME)
    written = file is not None or (name is not None and path.exists())
    found = _read(path if written else None)
    if name is None and file is not None:
        raise InputError(f"--systems names a file; say which system of it: {', '.join(found)}")
    name = name or THIS_MACHINE
    if name not in found:
        raise InputError(f"{unknown('system', name, found)} ({path}{'' if written else ' does not exist'})")
    return found[name]


def on_command_line(name: str, file: Path | None) -> str:
    """The words that name a system of this file to a command, as a shell takes them."""
    return shlex.join([name, *(["--systems", str(file)] if file is not None else [])])


def every(file: Path | None) -> list[System]:
    """Each system of the file, and this machine. Raises InputError for a file that can't be used."""
    from assay.suite.systems import FILE_NAME

    path = file or Path(FILE_NAME)
    return [*_read(path if file is not None or path.exists() else None).values()]


def _read(path: Path | None) -> dict[str, System]:
    from assay.launch import SYSTEM_MODELS
    from assay.suite import document
    from assay.suite.systems import systems

    file = document.Document("", {}) if path is None else document.read(path)
    found, problems = systems(file, SYSTEM_MODELS)
    if problems:
        raise InputError(problems)
    return found


def on_kubernetes(name: str | None, file: Path | None) -> KubernetesSystem:
    """The options of a system on Kubernetes; without a name what holds where nothing is written.

    Raises InputError where there is none of this name, or it is reached otherwise.
    """
    from assay.launch.kubernetes.options import KubernetesSystem

    if name is None and file is None:
        return KubernetesSystem.model_validate({})
    system = named(name, file)
    if not isinstance(system.options, KubernetesSystem):
        raise InputError(f"{system.name} is reached through {system.launcher}, and this is about Kubernetes")
    return system.options

"""Systems by their names in systems.yaml, for commands about one without a suite."""

from __future__ import annotations

import shlex
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from assay.launch.kubernetes.options import KubernetesSystem
    from assay.suite.model import System

File = str | PathLike[str] | None


def system_named(name: str | None = None, file: File = None) -> System:
    """The system with this name; without a name, this machine.

    file  with the system; None: systems.yaml here, if it exists

    Raises InputError if there is none with this name, or the file can't be used.
    """
    from assay.run.request import read_systems
    from assay.suite.findings import unknown
    from assay.suite.load import FILE_NAME, THIS_MACHINE

    path = Path(file or FILE_NAME)
    written = file is not None or (name is not None and path.exists())
    known = read_systems(path if written else None).by_name
    if name is None and file is not None:
        raise InputError(f"--systems names a file; also name one of its systems: {', '.join(known)}")
    name = name or THIS_MACHINE
    if name not in known:
        raise InputError(f"{unknown('system', name, known)} ({path}{'' if written else ' does not exist'})")
    return known[name]


def every_system(file: File = None) -> list[System]:
    """Each system of the file, and this machine. Raises InputError for a file that can't be used."""
    from assay.run.request import read_systems
    from assay.suite.load import FILE_NAME

    path = Path(file or FILE_NAME)
    return [*read_systems(path if file is not None or path.exists() else None).by_name.values()]


def on_command_line(name: str, file: File) -> str:
    """The words that name a system of this file in a command, quoted for a shell."""
    return shlex.join([name, *(["--systems", str(file)] if file is not None else [])])


def kubernetes_options(name: str | None, file: File) -> KubernetesSystem:
    """The options of a system on Kubernetes; without a name, the defaults.

    Raises InputError if there is none with this name, or it uses another launcher.
    """
    from assay.launch.kubernetes.options import KubernetesSystem

    if name is None and file is None:
        return KubernetesSystem.model_validate({})
    system = system_named(name, file)
    if not isinstance(system.options, KubernetesSystem):
        raise InputError(
            f"{system.name} uses the launcher {system.launcher}, but this command is for Kubernetes"
        )
    return system.options

"""One file a way to start a job; here only which there are and how one is made."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from assay.errors import InputError
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.launcher import Launcher
from assay.launch.local import LocalLauncher, LocalSystem
from assay.launch.podman.launcher import PodmanLauncher
from assay.launch.podman.options import ContainerSystem
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from assay.launch.ssh.launcher import SshLauncher
from assay.launch.ssh.options import SshSystem

# launcher → what a system in systems.yaml may say of it; each has `max_nodes`, None where there is no limit
SYSTEM_MODELS: dict[str, type[BaseModel]] = {
    "local": LocalSystem,
    "podman": ContainerSystem,
    "docker": ContainerSystem,
    "kubernetes": KubernetesSystem,
    "slurm": SlurmSystem,
    "ssh": SshSystem,
}


def make(name: str, options: BaseModel, *, spool: Path) -> Launcher:
    """The launcher of this name for a system with these options, an instance of `SYSTEM_MODELS[name]`.

    spool  a directory of the launcher's own, the same whenever a job has to be found again

    Raises InputError where there is none of this name.
    """
    if isinstance(options, LocalSystem) and name == LocalLauncher.name:
        return LocalLauncher(options, spool)
    if isinstance(options, ContainerSystem) and name in ("podman", "docker"):
        return PodmanLauncher(name, options, spool)
    if isinstance(options, SlurmSystem) and name == SlurmLauncher.name:
        return SlurmLauncher(options, spool)
    if isinstance(options, KubernetesSystem) and name == KubernetesLauncher.name:
        return KubernetesLauncher(options, spool)
    if isinstance(options, SshSystem) and name == SshLauncher.name:
        return SshLauncher(options)
    raise InputError(f"launcher: found {name!r}; choose from {', '.join(SYSTEM_MODELS)}")

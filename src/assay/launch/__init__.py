"""One package for each way to start a job; this module only has their names and imports them on demand.

A package is imported when its platform is first used: a run on this machine loads no cluster client.
A new launcher is a package with a `PLATFORM` and a line here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay.errors import InputError
from assay.launch.added import guarded_platform
from assay.launch.launcher import Launcher
from assay.launch.platform import Platform
from assay.registry import NamedEntries, registry

PACKAGES = {
    "local": "assay.launch.local",
    "podman": "assay.launch.podman",
    "docker": "assay.launch.docker",
    "kubernetes": "assay.launch.kubernetes",
    "lsf": "assay.launch.lsf",
    "slurm": "assay.launch.slurm",
    "ssh": "assay.launch.ssh",
}
_PLACES = {launcher: f"{package}:PLATFORM" for launcher, package in PACKAGES.items()}
PLATFORMS: NamedEntries[Platform[Any]] = registry(
    "assay.launchers", _PLACES, Platform, adapt=guarded_platform
)
# launcher → model of its options in systems.yaml; each has `max_nodes`, None if there is no limit
SYSTEM_MODELS: NamedEntries[type[BaseModel]] = PLATFORMS.part(lambda platform: platform.options)


def make(name: str, options: BaseModel, *, spool: Path) -> Launcher:
    """The launcher of this name for a system with these options, an instance of `SYSTEM_MODELS[name]`.

    spool  the launcher's own directory; must be the same whenever a job has to be found again

    Raises InputError if there is no launcher of this name.
    """
    if name not in PLATFORMS:
        raise InputError(f"launcher: found {name!r}; choose from {', '.join(PLATFORMS)}")
    return PLATFORMS[name].launcher(options, spool)

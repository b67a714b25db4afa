"""One package for each way to start a job; here only their names and how one is reached.

A package is imported when its platform is first used: whoever runs on this machine loads no client of a
cluster. A new launcher is a package with a `PLATFORM` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from assay.errors import InputError
from assay.launch.launcher import Launcher
from assay.launch.platform import Platform

T = TypeVar("T")
PACKAGES = {
    "local": "assay.launch.local",
    "podman": "assay.launch.podman",
    "docker": "assay.launch.docker",
    "kubernetes": "assay.launch.kubernetes",
    "lsf": "assay.launch.lsf",
    "slurm": "assay.launch.slurm",
    "ssh": "assay.launch.ssh",
}


class _Platforms(Mapping[str, T]):
    """Launcher → something of its platform, imported when it is looked up."""

    def __init__(self, part: Callable[[Platform[Any]], T]) -> None:
        self._part = part

    def __getitem__(self, launcher: str) -> T:
        platform: Platform[Any] = import_module(PACKAGES[launcher]).PLATFORM
        return self._part(platform)

    def __contains__(self, launcher: object) -> bool:
        return launcher in PACKAGES

    def __iter__(self) -> Iterator[str]:
        return iter(PACKAGES)

    def __len__(self) -> int:
        return len(PACKAGES)


PLATFORMS: Mapping[str, Platform[Any]] = _Platforms(lambda platform: platform)
# launcher → what a system in systems.yaml may say of it; each has `max_nodes`, None where there is no limit
SYSTEM_MODELS: Mapping[str, type[BaseModel]] = _Platforms(lambda platform: platform.options)


def make(name: str, options: BaseModel, *, spool: Path) -> Launcher:
    """The launcher of this name for a system with these options, an instance of `SYSTEM_MODELS[name]`.

    spool  the launcher's own directory, the same whenever a job has to be found again

    Raises InputError if there is no launcher of this name.
    """
    if name not in PLATFORMS:
        raise InputError(f"launcher: found {name!r}; choose from {', '.join(PLATFORMS)}")
    return PLATFORMS[name].launcher(options, spool)

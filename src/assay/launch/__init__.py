"""One package for each way to start a job; this module only has their names and imports them on demand.

A package is imported when its platform is first used: a run on this machine loads no cluster client.
A new launcher is a package with a `PLATFORM` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from assay.errors import InputError, LaunchError, PluginError
from assay.launch.launcher import Launcher
from assay.launch.platform import Platform
from assay.registry import EntryPoint, NamedEntries, registry

_END = object()
_YIELDING = ("follow", "fetch", "check")


def guarded_platform(platform: Platform[Any], plugin: EntryPoint) -> Platform[Any]:
    """The platform, whose unexpected exceptions fail a job and not the whole run."""
    if not (issubclass(platform.options, BaseModel) and hasattr(platform.options, "max_nodes")):
        raise TypeError(f"its options are {platform.options!r}; expected a pydantic model with max_nodes")

    def make(options: Any, directory: Path) -> Launcher:
        launcher = platform.launcher(options, directory)
        for name in dir(launcher):
            if not name.startswith("_") and callable(method := getattr(launcher, name)):
                guard = _each if name in _YIELDING else _once
                object.__setattr__(launcher, name, guard(method, plugin))
        return launcher

    return replace(platform, launcher=plugin.guarded(make), doctor=plugin.guarded(platform.doctor))


def _once(method: Callable[..., Any], plugin: EntryPoint) -> Callable[..., Any]:
    return plugin.guarded(method, _fail)


def _each(method: Callable[..., Iterator[Any]], plugin: EntryPoint) -> Callable[..., Iterator[Any]]:
    """The same of a method that yields its results."""

    def call(*args: Any) -> Iterator[Any]:
        results = plugin.guarded(lambda: iter(method(*args)), _fail)()
        following = plugin.guarded(lambda: next(results, _END), _fail)
        while (result := following()) is not _END:
            yield result

    return call


def _fail(failure: PluginError) -> NoReturn:
    raise LaunchError(str(failure)) from failure


PLACES = {
    "local": "assay.launch.local:PLATFORM",
    "podman": "assay.launch.podman:PODMAN",
    "docker": "assay.launch.podman:DOCKER",
    "kubernetes": "assay.launch.kubernetes:PLATFORM",
    "lsf": "assay.launch.lsf:PLATFORM",
    "slurm": "assay.launch.slurm:PLATFORM",
    "ssh": "assay.launch.ssh:PLATFORM",
}
PLATFORMS: NamedEntries[Platform[Any]] = registry("assay.launchers", PLACES, Platform, adapt=guarded_platform)
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

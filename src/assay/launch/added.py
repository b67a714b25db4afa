"""The platform that a plug-in adds: whatever its code raises is an error that names the plug-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from assay.errors import LaunchError, PluginError
from assay.launch.launcher import Launcher
from assay.launch.platform import Platform
from assay.registry import EntryPoint

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

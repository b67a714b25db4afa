"""What is missing on a system, and the command that fixes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import HostError, InputError
from assay.questions.evidence import runs_directory
from assay.questions.systems import on_command_line, system_named
from assay.registry import EntryPoint, entry_points, trouble
from assay.units import rate

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.checks.check import Check


@dataclass(frozen=True)
class Checkup:
    """The result of `doctor`: the facts, the checks of them and of the plug-ins, and the plug-ins.

    plugins  the entry points of other packages, and why each can't be used, "" if it can
    """

    facts: Mapping[str, Any]
    checks: tuple[Check, ...]
    plugins: tuple[tuple[EntryPoint, str], ...] = ()

    @property
    def ready(self) -> bool:
        """Whether no check fails."""
        return not any(check.state == "fail" for check in self.checks)


def doctor(
    system: str | None = None,
    *,
    systems: str | PathLike[str] | None = None,
    deep: bool = False,
    data: str | None = None,
    at_least: str | float | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Checkup:
    """What is missing on a system, like `assay doctor SYSTEM`; without a system, on this machine.

    systems   the systems file; None: systems.yaml here
    deep      on Kubernetes: also run pods, and check from inside them
    data      directory, as trials see it: read its files for five seconds, where the trials run
    at_least  a check fails if it is read more slowly, such as `"2GB/s"`, or bytes per second
    runs      directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    progress  takes a line about the current step

    Raises InputError if there is no such system, HostError or PlatformError if it can't be checked.
    """
    from assay import launch
    from assay.launch.platform import DoctorRequest

    if data is not None and not data.startswith("/"):
        raise InputError(f"data: found {data!r}; expected an absolute path, as trials see it")
    try:
        least = None if at_least is None else rate(at_least)
    except ValueError as error:
        raise InputError(f"at_least: {error}") from error
    where = system_named(system, systems)
    request = DoctorRequest(
        on_command_line(where.name, systems),
        _existing(runs_directory(runs)),
        data,
        deep,
        report=progress or (lambda _words: None),
    )
    diagnosis = launch.PLATFORMS[where.launcher].doctor(where.options, request)
    speed = () if data is None else _data_speed(diagnosis.facts, least)
    plugins = tuple((entry, trouble(entry)) for entry in entry_points())
    return Checkup(diagnosis.facts, (*diagnosis.checks, *speed, *_plugin_checks(plugins)), plugins)


def _plugin_checks(plugins: Sequence[tuple[EntryPoint, str]]) -> Iterator[Check]:
    """One for each package."""
    from assay.checks.check import Check

    for package in dict.fromkeys(entry.package for entry, _ in plugins):
        own = [(entry, why) for entry, why in plugins if entry.package == package]
        entry = own[0][0]
        if troubles := [why.removeprefix(f"plug-in {package} ") for _, why in own if why]:
            remedy = f"install another version of {package}, or run pip uninstall {package}"
            yield Check(f"plug-in {package}", "warn", "; ".join(troubles), remedy)
        else:
            adds = ", ".join(f"{entry.name} ({entry.group.removeprefix('assay.')})" for entry, _ in own)
            yield Check(f"plug-in {package}", "ok", f"{entry.version} in {entry.place}: adds {adds}")


def _data_speed(facts: Mapping[str, Any], at_least: float | None) -> tuple[Check, ...]:
    """The speed as measured here, or as each of several hosts measured it."""
    from assay.checks import machine
    from assay.checks.examine import worst_of_each

    tables = {name: table for name, table in facts.items() if isinstance(table, Mapping)}
    return tuple(
        worst_of_each(tables or {"here": facts}, lambda table: (machine.data_speed(table, at_least),))
    )


def _existing(directory: Path) -> Path:
    """The directory, or the nearest existing one above it: the disk that runs would be stored on."""
    absolute = directory.absolute()
    for candidate in (absolute, *absolute.parents):
        if candidate.is_dir():
            return candidate
    raise HostError(f"{absolute}: no directory above it exists")

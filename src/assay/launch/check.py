"""What a platform can say of a job beforehand: how it would take it best, and whether it would take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.launch.launcher import Launcher
from assay.records import Job, Shape


@dataclass(frozen=True)
class PartCheck:
    """What was said of a part of a job; refusal None: accepted."""

    part: str
    refusal: str | None


@runtime_checkable
class Checker(Protocol):
    """A launcher whose platform checks a job without running it."""

    def check(self, job: Job) -> Iterator[PartCheck]:
        """What the platform says of each part of the job. Changes nothing there.

        Raises InputError as `render` does, LaunchError where the platform can't be asked.
        """
        ...


@runtime_checkable
class Chooser(Protocol):
    """A launcher whose options can leave it to the platform how a job is sent."""

    def choose(self, shape: Shape) -> str:
        """Ask the platform what is left to it for a shape: that is what is shown and sent from then on.

        Gives what was chosen and why, for a person; "" where nothing is left to the platform, or was told
        before. Raises LaunchError where the platform can't be asked.
        """
        ...


@runtime_checkable
class Looker(Protocol):
    """A launcher that can see, without a platform to ask, whether what a job names is there."""

    def look(self, job: Job) -> None:
        """Look for what the job names: its directory, its program, its script.

        Raises InputError for what is not there, each with the parameter that names it as its place, and
        OptionsError where the system's options name it.
        """
        ...


def choice(launcher: Launcher, shape: Shape) -> str:
    """What the platform chose for a shape, and why; "" of a launcher that leaves it nothing."""
    return launcher.choose(shape) if isinstance(launcher, Chooser) else ""

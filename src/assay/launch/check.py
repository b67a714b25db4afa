"""What a platform can say about a job in advance: how best to send it, and whether it would accept it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.launch.launcher import Launcher
from assay.records import Job, Shape


@dataclass(frozen=True)
class PartCheck:
    """The result for one part of a job; refusal None: accepted."""

    part: str
    refusal: str | None


@runtime_checkable
class Checker(Protocol):
    """A launcher whose platform checks a job without running it."""

    def check(self, job: Job) -> Iterator[PartCheck]:
        """The platform's result for each part of the job. Changes nothing there.

        Raises InputError as `render` does, LaunchError if the platform can't be queried.
        """
        ...


@runtime_checkable
class Chooser(Protocol):
    """A launcher whose options can leave it to the platform how a job is sent."""

    def choose(self, shape: Shape) -> str:
        """Let the platform make the open choices for a shape; from then on they are shown and sent.

        Returns what was chosen and why, for people; "" if nothing is open, or it was already returned.
        Raises LaunchError if the platform can't be queried.
        """
        ...


@runtime_checkable
class Looker(Protocol):
    """A launcher that can check, without a platform to query, whether the files that a job names exist."""

    def look(self, job: Job) -> None:
        """Check that what the job names exists: its directory, its program, its script.

        Raises InputError for what is missing, each with the parameter that names it as its place, and
        OptionsError if the system's options name it.
        """
        ...


@runtime_checkable
class Preparer(Protocol):
    """A launcher that can start in advance what submits its jobs."""

    def prepare(self) -> None:
        """Start it, without waiting for it; `submit` does so otherwise."""
        ...


def choice(launcher: Launcher, shape: Shape) -> str:
    """What the platform chose for a shape, and why; "" if the launcher leaves it no choice."""
    return launcher.choose(shape) if isinstance(launcher, Chooser) else ""


def prepare(launchers: Iterable[Launcher]) -> None:
    """Let those that can start in advance what submits their jobs."""
    for launcher in launchers:
        if isinstance(launcher, Preparer):
            launcher.prepare()

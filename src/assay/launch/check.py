"""What a platform can say of a job beforehand, where it has a server that checks without running."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.records import Job


@dataclass(frozen=True)
class Checked:
    """What was said of a part of a job; refusal None: accepted."""

    part: str
    refusal: str | None


@runtime_checkable
class Checker(Protocol):
    """A launcher whose platform checks a job without running it."""

    def check(self, job: Job) -> Iterator[Checked]:
        """What the platform says of each part of the job. Changes nothing there.

        Raises InputError as `render` does, LaunchError where the platform can't be asked.
        """
        ...

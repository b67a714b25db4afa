"""A batch system as a launcher sees it: where jobs are submitted, asked about and ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from assay.errors import LaunchError
from assay.records import Extent, JobState


class QueueSilentError(LaunchError):
    """The batch system gives no answer: it is down or restarting, or does not let us ask."""


class QueuedJob(Protocol):
    """What a batch system says of one job."""

    @property
    def state(self) -> str:
        """In the batch system's own words."""
        ...

    @property
    def nodes(self) -> str:
        """As people read them; "" while it has none."""
        ...

    @property
    def waits(self) -> bool:
        """It has not begun, or is to begin again."""
        ...

    @property
    def suspended(self) -> bool:
        """Its processes are stopped for a while, so that their own time limits are late."""
        ...

    @property
    def over(self) -> bool:
        """Nothing of it runs or will run."""
        ...

    @property
    def restarted(self) -> bool:
        """It was started anew under its number."""
        ...

    @property
    def ended_from_outside(self) -> bool:
        """Somebody, or the batch system, ended it: what its ranks made of that is no result."""
        ...

    @property
    def lost_node(self) -> bool:
        """It ended because a node failed."""
        ...

    @property
    def hopeless(self) -> Extent | None:
        """It waits for what waiting does not bring; which other jobs would."""
        ...

    @property
    def why(self) -> str:
        """The reason of its state, in the batch system's words; "" where it gives none."""
        ...

    @property
    def trouble(self) -> str:
        """What is wrong with it while it runs, as text; "" for nothing."""
        ...

    @property
    def exit_code(self) -> str:
        """Of its script, in the batch system's words; "" where it is not known."""
        ...

    def why_waits(self) -> str:
        """What it waits for, with what to do where waiting alone may not help."""
        ...

    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How the batch system or somebody through it ended the job; None where it ended by itself.

        failed_nodes  those of its nodes that are down, each with its state
        """
        ...

    def why_not_started(self) -> str:
        """Why its script ended before any rank ran."""
        ...


class Queue(Protocol):
    """A batch system. What takes longer than its patience, or can't be asked, is `QueueSilentError`."""

    called: ClassVar[str]  # as people call it
    lists: ClassVar[str]  # the command by which people look at their jobs
    ends: ClassVar[str]  # and the one by which they end one

    def submit(self, directory: Path, script: Path) -> int:
        """Hand in a script to be run in this directory; the job's number.

        Raises PlatformError and JobRefusedError as `Launcher.submit` does.
        """
        ...

    def ask(self, number: int, token: str) -> QueuedJob | None:
        """What it says of a job; None where it knows of none. Raises QueueSilentError."""
        ...

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, the newest last.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token and state of each of this user's jobs of Assay's that wait or run.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def failed_nodes(self, nodes: str) -> list[str]:
        """Those of a job's nodes that are down, each with its state.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def ask_to_end(self, number: int, token: str) -> None:
        """Send SIGTERM to the processes of a job. Raises QueueSilentError, ProgramMissingError."""
        ...

    def end(self, number: int, token: str) -> None:
        """Take a job out of the queue, or kill it. Raises QueueSilentError, ProgramMissingError."""
        ...

    def drop(self, token: str) -> None:
        """The same for whatever has this token. Raises QueueSilentError, ProgramMissingError."""
        ...

"""A batch system as a launcher sees it: where jobs are submitted, queried, and ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Protocol

from assay.errors import LaunchError, PlatformError
from assay.launch.batch.queued_job import QueuedJob
from assay.launch.launcher import JobRefusedError
from assay.records import Extent
from assay.shell import CompletedCommand, ProgramMissingError


class QueueSilentError(LaunchError):
    """The batch system does not respond: it is down, restarting, or denies the query."""


def not_installed(run: Callable[..., CompletedCommand], commands: Iterable[str], option: str) -> list[str]:
    """The batch system's commands that are missing here; `option` makes a command do nothing."""
    missing = []
    for name in commands:
        try:
            run(name, option)
        except ProgramMissingError:
            missing.append(name)
        except QueueSilentError:  # it exists and waits for a response
            continue
    return missing


def no_answer(called: str, command: CompletedCommand) -> QueueSilentError:
    """The error for a command of this batch system that failed to answer."""
    return QueueSilentError(
        f"{called} does not respond: {command.argv[0]}: {command.words or command.exit_code}"
    )


def refusal(command: CompletedCommand, extent_of: Callable[[str], Extent]) -> PlatformError | JobRefusedError:
    """The error for a job that this command refused.

    extent_of  from what the command printed to the jobs that it would refuse for the same reason
    """
    message, extent = f"{command.argv[0]} refused the job: {command.words}", extent_of(command.words)
    return PlatformError(message) if extent is Extent.PLATFORM else JobRefusedError(message, extent)


class Queue(Protocol):
    """A batch system. Queries that fail or exceed its patience raise `QueueSilentError`."""

    called: ClassVar[str]  # its name for people
    lists: ClassVar[str]  # the command with which people list their jobs
    ends: ClassVar[str]  # and the one with which they end a job

    def submit(self, directory: Path, script: Path) -> int:
        """Submit a script to run in this directory; returns the job's number.

        Raises PlatformError and JobRefusedError as `Launcher.submit` does.
        """
        ...

    def ask(self, number: int, token: str) -> QueuedJob | None:
        """What it says about a job; None if it does not know the job. Raises QueueSilentError."""
        ...

    def numbers(self, token: str) -> list[int]:
        """Jobs with this token that it still knows, newest last.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def queued(self) -> list[tuple[int, str, str]]:
        """Number, token, and state of each of this user's Assay jobs that wait or run.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def failed_nodes(self, nodes: str) -> list[str]:
        """The nodes of a job that are down, each with its state.

        Raises QueueSilentError, ProgramMissingError.
        """
        ...

    def ask_to_end(self, number: int, token: str) -> None:
        """Send SIGTERM to the processes of a job. Raises QueueSilentError, ProgramMissingError."""
        ...

    def end(self, number: int, token: str) -> None:
        """Remove a job from the queue, or kill it. Raises QueueSilentError, ProgramMissingError."""
        ...

    def drop(self, token: str) -> None:
        """The same for whatever has this token. Raises QueueSilentError, ProgramMissingError."""
        ...

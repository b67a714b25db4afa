"""A batch system as a launcher sees it: where jobs are submitted, queried, and ended, and a job there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from assay.errors import LaunchError, PlatformError
from assay.launch.batch.script import EXIT_NOT_OURS, EXIT_NOT_VISIBLE
from assay.launch.launcher import JobRefusedError
from assay.records import Extent, JobState
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


@dataclass(frozen=True)
class QueuedJob(ABC):
    """One job as its batch system reports it.

    called     the batch system's name
    waiting, running, suspending  its states for jobs that wait, for jobs that have started and are not over,
               and for those among them whose processes are suspended; every other state is final
    state      one of them, or a final one
    why        the reason of the state, in the batch system's words; "" if it gives none
    nodes      for people; "" while it has none
    exit_code  of its script, in the batch system's words; "" if unknown
    """

    called: ClassVar[str]
    waiting: ClassVar[frozenset[str]]
    running: ClassVar[frozenset[str]]
    suspending: ClassVar[frozenset[str]]

    state: str
    why: str
    nodes: str
    exit_code: str = ""

    @property
    def its_nodes(self) -> str:
        """Its nodes, for people, also while it has none."""
        return self.nodes or "its nodes"

    @property
    def waits(self) -> bool:
        """Whether it has not started, or will start again."""
        return self.state in self.waiting

    @property
    def suspended(self) -> bool:
        """Whether its processes are suspended, so that their own time limits are late."""
        return self.state in self.suspending

    @property
    def over(self) -> bool:
        """Whether nothing of it runs or will run."""
        return self.state not in self.waiting | self.running

    @property
    @abstractmethod
    def restarted(self) -> bool:
        """Whether the job was restarted under the same number."""

    @property
    @abstractmethod
    def ended_from_outside(self) -> bool:
        """Whether somebody, or the batch system, ended it: then its ranks' exit codes are no result."""

    @property
    @abstractmethod
    def lost_node(self) -> bool:
        """Whether it ended because a node failed."""

    @property
    @abstractmethod
    def hopeless(self) -> Extent | None:
        """Which jobs would wait in vain as this one does; None if it doesn't."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """What to do about the reason why it waits; "" if waiting is enough."""

    @property
    def trouble(self) -> str:
        """What is wrong with it while it runs, as text; "" for nothing."""
        return (
            f"{self.called} says {self.state}: its figures will contain the pause" if self.suspended else ""
        )

    @abstractmethod
    def end(self, failed_nodes: Sequence[str]) -> tuple[JobState, str] | None:
        """How the batch system, or somebody through it, ended the job; None if it ended on its own.

        failed_nodes  nodes of the job that are down, each with its state
        """

    def why_waits(self) -> str:
        """What it waits for, with what to do if waiting alone may not help."""
        reason = f"{self.state.lower()}: {self.why or f'{self.called} gives no reason yet'}"
        return f"{reason}; {self.remedy}" if self.remedy else reason

    def why_stopped(self) -> str:
        """The cause if somebody else ended the job."""
        reason = f" ({self.why})" if self.why else ""
        return f"somebody else, not this run, ended the job: {self.called} says {self.state}{reason}"

    def why_over(self) -> str:
        """Why the job is over, in the batch system's words."""
        reason = f", {self.why}" if self.why else ""
        return f"{self.called} says {self.state}{reason}, exit code {self.exit_code or 'unknown'}"

    def why_not_started(self) -> str:
        """Why its script ended before any rank ran."""
        code = self.exit_code.partition(":")[0]
        if code == str(EXIT_NOT_VISIBLE):
            return self.why_not_visible()
        if code == str(EXIT_NOT_OURS):
            return "the job was abandoned before it started"
        return f"the batch script exited {code or 'with an error'} before the ranks started"

    def why_not_visible(self) -> str:
        """The cause if its nodes don't see its directory."""
        return (
            f"{self.its_nodes} can't write the job's directory: set the system's `directory` to one that "
            "they share with this machine"
        )

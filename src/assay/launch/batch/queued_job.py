"""What a batch system says about one job, and what follows from it on every batch system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from assay.launch.batch.script import EXIT_NOT_OURS, EXIT_NOT_VISIBLE
from assay.records import Extent, JobState


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

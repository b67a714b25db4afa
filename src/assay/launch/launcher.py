"""What a launcher is: how a job is started, found again, followed and ended on one kind of platform."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.errors import LaunchError
from assay.records import Extent, Handle, Job, JobStatus, Output, RenderedJob


class JobRefusedError(LaunchError):
    """The platform does not take a job; extent: which others it would not take either."""

    def __init__(self, words: str, extent: Extent) -> None:
        super().__init__(words)
        self.extent = extent


class JobLostError(LaunchError):
    """The platform lost a job before it began: it never will, and another may be submitted in its place."""


@dataclass(frozen=True)
class Leftover:
    """What a platform has of one job, whoever submitted it.

    what        each thing in words: `Job assay-1f`, `container assay-1f`
    runs        something of it runs, or may yet begin to
    changed_at  when it last began or ended anything, seconds since the epoch; None where nobody can tell
    """

    token: str
    what: tuple[str, ...]
    runs: bool
    changed_at: float | None = None


class Launcher(Protocol):
    """The smallest interface that serves this machine, ssh, Slurm, podman and Kubernetes.

    Ranks run whether or not Assay lives: nothing of a job may depend on a pipe to Assay or on its being a
    parent. The job's own time limit is kept by the job.

    The order of a life: `submit` (or `find`, by an Assay that comes later), `follow` to its end, `status`
    for how it ended, `fetch` for the files it wrote, `forget`. `cancel` may come at any point after submit.
    """

    name: str

    def render(self, job: Job) -> RenderedJob:
        """What `submit` would send, byte for byte the same for an equal job, with secrets hidden. Pure.

        Raises InputError for a job that can't be run here: a shape, a file name, a variable.
        """
        ...

    def submit(self, job: Job) -> Handle:
        """Start the job, once: a token that was submitted or given up before is refused.

        Raises JobRefusedError when the platform refuses it and it is known which others it would refuse,
        JobLostError when it took the job and lost it before it began, PlatformError when no job can be
        submitted (not logged in, not reached, not installed), LaunchError for every other refusal, InputError
        as `render` does. When it is interrupted (KeyboardInterrupt, kill -9) the job may run all the same:
        `find` tells.
        """
        ...

    def find(self, token: str) -> Handle | None:
        """The job with this token, running or ended; None is a promise that it will never run.

        Called by an Assay that finds a token on disk without a handle: the one before it was killed while
        it submitted. After None, a job still on its way must not start.
        """
        ...

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """What the job printed, from `kept` bytes a stream on, until it has ended and all was given.

        Yields None at least every 0.2 s when there is nothing new, so that the caller can act. When it
        returns, `status` is final and no process of the job is left. No `Output` exceeds 1 MiB.
        """
        ...

    def status(self, handle: Handle) -> JobStatus:
        """Where the job stands. Changes nothing."""
        ...

    def cancel(self, handle: Handle) -> None:
        """End all ranks: asked first, killed after a grace time. Returns when none is left.

        Of a job that has ended it changes nothing. Raises LaunchError when something can't be ended.
        """
        ...

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """Files that an ended job wrote below its working directory and that match one of the globs.

        `Output.stream` is the file's name relative to that directory; a file comes whole, in order, in
        parts of at most 1 MiB, before the next begins; an empty file is one empty part. Files that were
        there before the job began and did not change are not the job's. Links are not followed out of the
        directory. A pattern that matches nothing yields nothing: whether that matters, the caller knows.
        Raises LaunchError for a file that can't be read or is larger than the launcher carries.
        """
        ...

    def forget(self, handle: Handle) -> None:
        """Remove what the launcher kept for a job that has ended and whose output is safe.

        Raises LaunchError for a job that still runs. Forgetting twice is once.
        """
        ...

    def leftovers(self) -> Sequence[Leftover]:
        """All that the platform has of any job of Assay's, found by its mark there. Changes nothing.

        What lies below the launcher's own directory is not among it: whoever gave that knows it.
        Raises LaunchError where the platform can't be asked.
        """
        ...

    def discard(self, tokens: Collection[str]) -> None:
        """End and remove all that `leftovers` lists of these jobs; what is gone meanwhile is gone.

        Raises LaunchError where something of them stays.
        """
        ...

"""What a launcher is: how a job is started, found again, followed, and ended on one kind of platform."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.errors import LaunchError
from assay.records import Extent, Handle, Job, JobStatus, Output, RenderedJob, Shape


class JobRefusedError(LaunchError):
    """The platform refuses a job; extent: which other jobs it would refuse too."""

    def __init__(self, message: str, extent: Extent) -> None:
        super().__init__(message)
        self.extent = extent


class JobLostError(LaunchError):
    """The platform lost a job before it started: it never will, and another may be submitted instead."""


@dataclass(frozen=True)
class Leftover:
    """What a platform still has of one job, whoever submitted it.

    what        each thing as text: `Job assay-1f`, `container assay-1f`
    runs        something of it is running, or may yet start
    changed_at  when it last started or ended anything that nobody removes yet, seconds since the epoch;
                None if unknown
    """

    token: str
    what: tuple[str, ...]
    runs: bool
    changed_at: float | None = None


class Launcher(Protocol):
    """The smallest interface that serves this machine, ssh, Slurm, Podman, and Kubernetes.

    Ranks run whether or not Assay is alive: no part of a job may depend on a pipe to Assay or on Assay being
    its parent process. The job enforces its own time limit.

    The order of calls: `submit` (or `find`, by a later Assay), `follow` to its end, `status`
    for how it ended, `fetch` for the files it wrote, `forget`. `cancel` may come at any point after submit.
    """

    name: str

    def render(self, job: Job) -> RenderedJob:
        """What `submit` would send, byte for byte the same for an equal job, with secrets hidden. Pure.

        Raises InputError for a job that can't run here: its shape, a file name, a variable.
        """
        ...

    def submit(self, job: Job) -> Handle:
        """Start the job, once: a token that was already submitted or abandoned is refused.

        Raises JobRefusedError if the platform refuses it and it is known which others it would refuse,
        JobLostError if it accepted the job and lost it before it started, PlatformError if no job can be
        submitted (not logged in, not reachable, not installed), LaunchError for every other refusal, and
        InputError as `render` does. If it is interrupted (KeyboardInterrupt, kill -9), the job may still run:
        `find` tells.
        """
        ...

    def find(self, token: str) -> Handle | None:
        """The job with this token, running or ended; None is a promise that it will never run.

        Called by an Assay that finds a token on disk without a handle: the previous one was killed while
        it submitted. After None, a job that is still in transit must not start.
        """
        ...

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """What the job printed, from `kept` bytes of each stream on, until it has ended and all was returned.

        Yields None at least every 0.2 s when there is nothing new, so that the caller can act. When it
        returns, `status` is final and no process of the job is left. No `Output` exceeds 1 MiB.
        """
        ...

    def status(self, handle: Handle) -> JobStatus:
        """The job's state. Changes nothing."""
        ...

    def cancel(self, handle: Handle) -> None:
        """End all ranks: ask them first, kill them after a grace time. Returns when none is left.

        Does nothing to a job that has ended. Raises LaunchError if something can't be ended.
        """
        ...

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """Files that an ended job wrote below its working directory and that match one of the globs.

        `Output.stream` is the file's name relative to that directory. A file comes whole, in order, in
        parts of at most 1 MiB, before the next one starts; an empty file is one empty part. Files that
        existed before the job started and did not change are not the job's. Links are not followed out of the
        directory. A pattern that matches nothing yields nothing: the caller knows whether that matters.
        Raises LaunchError for a file that can't be read or is larger than the launcher transfers.
        """
        ...

    def forget(self, handle: Handle) -> None:
        """Remove what the launcher stored for a job that has ended and whose output is safe.

        Raises LaunchError for a job that is still running, and, after it removed what it could, if somebody
        else keeps something of it. Calling it twice is fine.
        """
        ...

    def leftovers(self) -> Sequence[Leftover]:
        """Everything that the platform has of any of Assay's jobs, found by its mark there. Changes nothing.

        Excludes what is below the launcher's own directory: its owner knows about that.
        Raises LaunchError if the platform can't be queried.
        """
        ...

    def discard(self, tokens: Collection[str]) -> None:
        """End and remove everything that `leftovers` lists for these jobs; what is already gone is fine.

        Raises LaunchError if some of it remains.
        """
        ...


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

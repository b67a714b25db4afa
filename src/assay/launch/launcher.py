"""What a launcher is: how a job is started, found again, followed and ended on one kind of platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from assay.records import Handle, Job, JobStatus, Output, Rendered


class Launcher(Protocol):
    """The smallest interface that serves this machine, ssh, Slurm, podman and Kubernetes.

    Ranks run whether or not Assay lives: nothing of a job may depend on a pipe to Assay or on its being a
    parent. The job's own time limit is kept by the job.
    """

    name: str

    def render(self, job: Job) -> Rendered:
        """What `submit` would send, byte for byte the same for an equal job. Pure."""
        ...

    def submit(self, job: Job) -> Handle:
        """Start the job. Raises LaunchError when the platform refuses it."""
        ...

    def find(self, token: str) -> Handle | None:
        """The job with this token, running or ended; None is a promise that it will never run.

        Called by an Assay that finds a token on disk without a handle: the one before it was killed while
        it submitted. After None, a job still on its way must not start.
        """
        ...

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """What the job printed, from `kept` bytes a stream on, until it has ended and all was given.

        Yields None at least every 0.2 s when there is nothing new, so that the caller can act.
        """
        ...

    def status(self, handle: Handle) -> JobStatus:
        """Where the job stands."""
        ...

    def cancel(self, handle: Handle) -> None:
        """End all ranks: asked first, killed after a grace time. Returns when none is left."""
        ...

    def forget(self, handle: Handle) -> None:
        """Remove what the launcher kept for a job that has ended and whose output is safe."""
        ...

"""One short pod of the doctor: sent like every trial, followed to its end, and removed completely."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from assay.errors import AssayError
from assay.launch import programs
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Handle, Job, JobState, JobStatus, Shape, Task

START_WITHIN_S = 300.0  # image pulls take minutes
ENDS_WITHIN_S = 240.0  # a cold import of torch from a network file system takes minutes


@dataclass(frozen=True)
class PodRun:
    """The outcome of a pod.

    problem   why it reported nothing; "" if it did
    output    what its rank printed
    began     when it was requested; first_at: when its first byte arrived; both by this machine's clock
    """

    problem: str
    output: str
    status: JobStatus | None
    began: float
    first_at: float | None


def job(*commands: programs.Command, name: str = "doctor") -> Job:
    """A job of one rank that runs the programs one after the other."""
    argv, files = programs.in_turn(*commands)
    return Job(uuid.uuid4().hex, name, Shape(1, 1), Task(argv, files=files), 0, ENDS_WITHIN_S)


def run(system: KubernetesSystem, job: Job, start_within_s: float | None = None) -> PodRun:
    """Send a job of one rank, and wait for its end or, if it doesn't start, for `start_within_s`."""
    began = time.time()
    with tempfile.TemporaryDirectory() as spool:
        launcher = KubernetesLauncher(system, Path(spool))
        try:
            handle = launcher.submit(job)
        except AssayError as error:
            return PodRun(str(error), "", None, began, None)
        try:
            return _followed(launcher, handle, began, start_within_s or START_WITHIN_S)
        finally:
            launcher.cancel(handle)
            launcher.forget(handle)


def _followed(launcher: KubernetesLauncher, handle: Handle, began: float, start_within_s: float) -> PodRun:
    output_by_stream: defaultdict[str, bytes] = defaultdict(bytes)
    first_at: float | None = None
    for output in launcher.follow(handle, {}):
        if output is not None:
            first_at = first_at or time.time()
            output_by_stream[output.stream] += output.data
        elif first_at is None and time.time() - began > start_within_s:
            waits = launcher.status(handle).cause or "no reason is known"
            return PodRun(f"did not start within {start_within_s:g} s: {waits}", "", None, began, None)
    status = launcher.status(handle)
    printed = output_by_stream["rank-0"].decode(errors="replace")
    silent = status.state is not JobState.SUCCEEDED and programs.MARK not in printed
    return PodRun((status.cause or printed[-200:]) if silent else "", printed, status, began, first_at)

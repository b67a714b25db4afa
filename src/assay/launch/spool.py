"""Jobs whose directories are on this machine, whoever starts their keepers: shared by local and podman.

A job is a directory `SPOOL/TOKEN`: what is sent (`spec.json`, keeper and probe in `assay_payloads/`, the
task's files in `work/`) and what the keeper adds: who took the job, how it ended, and a file for each stream.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay import payload_files
from assay.errors import AssayError, InputError, LaunchError, PlatformError
from assay.launch import job_directory, job_spec
from assay.launch.job_directory import JobDirectory, leave_only
from assay.records import Job, JobStatus, Output
from assay.secret_reference import EnvironmentValue
from assay_payloads.keeping.relay import stamps

LOOK_EVERY_S = 0.1  # too cheap for a measured program to notice; the job's end wakes it at once
KEEPER_START_S = 60.0  # it takes 30 ms, but long on a machine that is short of memory
KEEPER_SLACK_S = 8.0  # beyond the grace time: the keeper's wait after SIGKILL, plus a margin
OUTPUT_LIMIT_BYTES = 1 << 30
MARKS = (
    "job.sh",
    "taken",
)  # every job directory on a shared disk has one of them; other directories may be there
_TAKES_NOTHING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@contextmanager
def naming_disk_errors(doing: str) -> Iterator[None]:
    """Turns disk errors into a LaunchError that names the file; PlatformError if it accepts nothing."""
    try:
        yield
    except OSError as error:
        kind = PlatformError if error.errno in _TAKES_NOTHING else LaunchError
        where = f"{error.filename}: " if error.filename else ""
        raise kind(f"can't {doing}: {where}{error.strerror or error}") from error


def check_one_node(job: Job, launcher: str, env: Mapping[str, EnvironmentValue]) -> None:
    """Raise InputError for a job that can't be sent, or needs more than one machine."""
    shape = job.shape
    if shape.nodes not in (None, 1):
        raise InputError(
            f"{job.trial_id}: shape {shape} needs {shape.nodes} nodes, but launcher {launcher} has one: "
            f"write {shape.workers}x{shape.accelerators}, or choose another system"
        )
    job_spec.check_task(job, env)


@dataclass(frozen=True)
class Spool:
    """The directory that holds the jobs' directories."""

    directory: Path

    def job(self, token: str) -> JobDirectory:
        """The job's directory, existing or not. Raises ValueError for an invalid token."""
        if TOKEN.fullmatch(token) is None:
            raise ValueError(f"{token!r} is not a token: use letters, digits, dots, dashes, and underscores")
        return JobDirectory(self.directory / token)

    @contextmanager
    def new(self, token: str) -> Iterator[JobDirectory]:
        """The job's directory, created for what is written inside the context; removed if that fails.

        Raises LaunchError if it exists.
        """
        kept = self.job(token)
        try:
            kept.directory.mkdir(mode=0o700, parents=True)  # it may contain a user's secret variables
        except FileExistsError as error:
            raise LaunchError(f"job {token} was submitted or abandoned before: {kept.directory}") from error
        try:
            yield kept
        except (OSError, AssayError):
            remove(kept.directory)
            raise

    def fetch(self, token: str, patterns: Sequence[str]) -> Iterator[Output]:
        """Files from the directory that the ranks ran in; at most 1 GiB per job."""
        for pattern in patterns:
            job_directory.check_output_name(pattern)
        spec = self.job(token).spec()
        before = {name: tuple(stamp) for name, stamp in spec["files_before"].items()}
        return job_directory.written_outputs(Path(spec["cwd"]), patterns, before, OUTPUT_LIMIT_BYTES)

    def remove(self, token: str, status: Callable[[], JobStatus]) -> None:
        """Remove the job's directory. Raises LaunchError for a job that is still running."""
        kept = self.job(token)
        if not kept.directory.exists():
            return
        if not status().state.final:
            raise LaunchError(f"job {token} is still running; cancel it first")
        remove(kept.directory)


def remove(directory: Path) -> None:
    """Remove a job's directory, if it exists; the files that identify it go last."""
    with naming_disk_errors("remove a job's directory"):
        if directory.exists():
            leave_only(directory, *MARKS)
            shutil.rmtree(directory)


def lay_out_programs(kept: JobDirectory) -> None:
    """Copy the programs of every job into the job's directory, for machines without Assay."""
    payload_files.lay_out(kept.directory, payload_files.files(*job_spec.PROGRAMS))


def write(
    kept: JobDirectory,
    job: Job,
    *,
    python: str,
    env: Mapping[str, EnvironmentValue],
    grace_s: float,
    pin: bool,
    nodes: int = 1,
    start_timeout_s: float = job_spec.START_TIMEOUT_S,
) -> None:
    """Write each node's instructions into the job's directory; `spec.json` comes last."""
    job_spec.write_files(job, kept.work)
    cwd = Path(job.task.cwd or kept.work)
    spec = job_spec.spec(
        job,
        python=python,
        cwd=str(cwd),
        nodes=nodes,
        grace_s=grace_s,
        start_timeout_s=start_timeout_s,
        pin_cpus=pin,
        files_before=stamps(cwd, job.task.outputs),
    )
    variables = job_spec.all_variables(job, env)
    for node in range(nodes):
        job_spec.write_variables(variables, kept.share(node, nodes))
    job_spec.write_spec(spec, kept.directory)


def follow(
    job: JobDirectory,
    kept: Mapping[str, int],
    *,
    runs: Callable[[], bool],
    pause: Callable[[float], None],
    end_rest: Callable[[], None],
) -> Iterator[Output | None]:
    """New bytes of the streams' files, checked ten times per second and at once when the job ends.

    runs      whether the keeper is alive
    pause     sleeps this many seconds, or until the keeper ends
    end_rest  called once when it is no longer running, before the last check
    """
    taken = dict(kept)
    over = behind = False
    while behind or not over:
        if not over and not runs():
            end_rest()
            over = True  # known before the check, so that the last check misses nothing
        has_output = behind = False
        for output in job.new_bytes(taken):
            has_output, behind = True, behind or len(output.data) == job_directory.CHUNK_BYTES
            yield output
        if not has_output:
            yield None
        if not behind and not over:
            pause(LOOK_EVERY_S)

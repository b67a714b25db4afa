"""A process that Assay did not start, watched while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from assay.monitor.flight_recorder import FlightRecord
    from assay.monitor.nccl_ras import RasWatch
    from assay.monitor.watching import Watching
    from assay.monitor.watching_jobs import WatchedJob
    from assay.monitor.watching_logs import WatchedLogs


def watch(pid: int, *, every: str | float = 1.0, for_: str | float | None = None) -> Iterator[Watching]:
    """Samples of a process on this machine, of its node and GPUs, like `assay watch --pid PID`.

    pid    the process; everything below it belongs to it
    every  between samples: `"500ms"`, `"10s"` or seconds
    for_   how long; None: until it ends

    Each sample updates and yields the same record. Raises InputError if there is no such process, or for a
    time that is not one.
    """
    from assay.monitor.watching import watch as watched

    return watched(pid, *_times(every, for_))


def watch_job(
    *,
    slurm_job: str | int | None = None,
    kubernetes: str | None = None,
    every: str | float = 1.0,
    for_: str | float | None = None,
    python: str = "python3",
) -> Iterator[WatchedJob]:
    """Samples of every node or pod of a running job, like `assay watch --slurm-job` and `--kubernetes`.

    slurm_job    its number; the sampler is a step of its own that overlaps with the job's
    kubernetes   NAMESPACE/JOB; the sampler is a process of its own in each pod's first container
    every, for_  as for `watch`
    python       an interpreter there, 3.9 or newer

    Each sample updates and yields the same record. Raises InputError if there is no such running job;
    HostError if no sampler could run there.
    """
    from assay.monitor.watching_jobs import of_kubernetes, of_slurm
    from assay.monitor.watching_jobs import watch as watched

    if (slurm_job is None) == (kubernetes is None):
        raise InputError("found a job of both Slurm and Kubernetes, or of none; expected one")
    period_s, for_s = _times(every, for_)
    if kubernetes is not None:
        return watched(kubernetes, of_kubernetes(kubernetes, period_s, python), for_s)
    return watched(f"job {slurm_job}", of_slurm(str(slurm_job), period_s, python), for_s)


def watch_logs(
    paths: Sequence[str | PathLike[str]],
    *,
    step_pattern: str | None = None,
    every: str | float = 1.0,
    for_: str | float | None = None,
) -> Iterator[WatchedLogs]:
    """What growing logs of a running job say, like `assay watch --log`.

    paths         one log of the whole job, or one per rank
    step_pattern  what a step looks like if its program is unknown: named groups `step`, which is needed,
                  `seconds` or `milliseconds`, and figures
    every, for_   as for `watch`

    Each look updates and yields the same record. Raises InputError if a log can't be read, or for a pattern
    that is not one of a step.
    """
    from pathlib import Path

    from assay.monitor.watching_logs import watch as watched
    from assay.monitor.watching_logs import watched_logs

    return watched(watched_logs([Path(path) for path in paths], step_pattern), *_times(every, for_))


def flight_record(directory: str | PathLike[str]) -> FlightRecord:
    """What dumps of torch's flight recorder say, like `assay watch --flight-recorder`.

    directory  with a file per rank, whose name ends with the rank's number

    Raises InputError with every file that is no dump; nothing in a dump is run.
    """
    from pathlib import Path

    from assay.monitor.flight_recorder import flight_record as judged

    return judged(Path(directory))


def watch_nccl(
    address: str, *, every: str | float = 10.0, for_: str | float | None = None
) -> Iterator[RasWatch]:
    """What NCCL itself reports of a running job, like `assay watch --nccl-ras HOST:PORT`.

    address      where a process of the job answers, usually `localhost:28028` on one of its nodes
    every, for_  as for `watch`

    Each answer updates and yields the same record. Raises InputError if no NCCL answers there; HostError if
    an answer takes too long.
    """
    from assay.monitor.nccl_ras import watch as watched

    return watched(address, *_times(every, for_))


def _times(every: str | float, for_: str | float | None) -> tuple[float, float | None]:
    try:
        return seconds(every), None if for_ is None else seconds(for_)
    except ValueError as error:
        raise InputError(str(error)) from None

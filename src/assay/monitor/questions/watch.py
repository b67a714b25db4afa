"""What is running now, and jobs that Assay did not start, watched while they run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.monitor.questions.running import Running, running_trials
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Count,
    Question,
    Reference,
    Snapshot,
    argument,
    option,
    question,
)
from assay.questions.values import Duration, File, Folder
from assay.units import seconds
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from assay.monitor.flight_recorder import FlightRecord
    from assay.monitor.nccl_ras import RasWatch
    from assay.monitor.questions.watch_samples import Sample
    from assay.monitor.watching import Watching
    from assay.monitor.watching_jobs import WatchedJob
    from assay.monitor.watching_logs import WatchedLogs
    from assay.view.blocks import Block


@question
class Watch(Question):
    """Show what is running now: nodes, GPUs and ranks of each running trial, what is off first. Or watch a
    job that Assay did not start: its CPU time, memory and disk traffic, its nodes and their GPUs.

    RUN is a suite or a session; without it, every running trial is shown. The figures come from the files of
    the runs directory, so it also works while another `assay run` holds the session. If standard output is
    no terminal, it prints once.

    Any other job is a process on this machine and everything below it, a running job of Slurm, or the pods
    of a Kubernetes job. Assay reads what the kernel and NVIDIA's driver count, and changes nothing of the
    job: in Slurm it runs a step of its own that overlaps with the job's, in Kubernetes a process of its own
    in each pod's first container, which needs Python 3.9 there. The live table and the lines go to standard
    output; a summary follows when the job ends, when the time is over, or after Ctrl-C.

    From dumps of torch's flight recorder (TORCH_FR_BUFFER_SIZE), it names the ranks that are missing in a
    collective in which others wait, and those that others wait for. NCCL 2.28.7 or newer answers the same
    while the job runs, on its nodes at localhost:28028.

    From logs that grow, it shows the newest step and figures, in every format that `assay import` knows, and
    says when steps stop. --step-pattern describes a step of another program: `(?P<step>[0-9]+)` stands for
    its number, `(?P<seconds>…)` or `(?P<milliseconds>…)` for the time that it took, any other named group for
    a figure. From one log per rank with times of the rank's own, it names the rank that is slower.

    \b
    Examples:
      assay watch
      assay watch training --every 5s
      assay watch --once --json
      assay watch --pid 4711
      assay watch --slurm-job 1234 --every 5s --for 10min
      assay watch --kubernetes training/bert
      assay watch --flight-recorder traces
      assay watch --nccl-ras localhost:28028 --every 10s
      assay watch --pid 4711 --log train.log
      assay watch --log rank0.log --log rank1.log --step-pattern 'it (?P<step>\\d+) (?P<seconds>\\S+) s'
      assay watch --pid 4711 --json > samples.jsonl     a line per sample, then the summary

    \b
    Exit codes: 0 shown, or watched to the end of the job or of the time; 1 dumps, NCCL or logs name a rank
    or a stop; 4 there is no such run, process, running job, dump or log, or no NCCL answers; 5 nothing could
    be sampled there; 130 stopped by Ctrl-C.
    """

    reference: str = argument(default="", metavar="[RUN]")
    pid: Count | None = option("Process to watch, with its children.", default=None, local=True)
    slurm_job: str | None = option(
        "Running job of Slurm to watch, on all of its nodes.", default=None, metavar="ID", local=True
    )
    kubernetes: str | None = option(
        "Job to watch, in all of its running pods.", default=None, metavar="NAMESPACE/JOB", local=True
    )
    flight_recorder: Folder | None = option(
        "Dumps of torch's flight recorder to judge instead.", default=None, metavar="DIR", local=True
    )
    nccl_ras: str | None = option(
        "Where NCCL of the job answers: localhost:28028.", default=None, metavar="HOST:PORT", local=True
    )
    logs: tuple[File, ...] = option(
        "Log of the job that grows, or one per rank: its steps, alone or with a job above.",
        default=(),
        names=("--log",),
        local=True,
    )
    step_pattern: str | None = option(
        "A step in logs of an unknown program; see above.", default=None, metavar="REGEX"
    )
    every: Duration = option("Time between samples.", default="1s")
    for_: Duration | None = option("How long; else until it ends.", default=None, names=("--for",))
    python: str = option("Interpreter on the nodes, in the pods.", default="python3")
    once: bool = option("Print what is running once and exit.", default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        sources = (self.pid, self.slurm_job, self.kubernetes, self.flight_recorder, self.nccl_ras)
        named = sum(source is not None for source in sources)
        if named > 1:
            raise ValueError(
                "name one: --pid, --slurm-job, --kubernetes, --flight-recorder, --nccl-ras, or --log"
            )
        if self.step_pattern is not None and not self.logs:
            raise ValueError("--step-pattern describes what --log names; name a log")
        if self.logs and (self.flight_recorder is not None or self.nccl_ras is not None):
            raise ValueError("--log goes with --pid, --slurm-job or --kubernetes, or stands alone")
        if (named or self.logs) and (self.reference or self.once):
            raise ValueError("RUN and --once are for what Assay runs; leave them out for another job")
        if self.for_ is not None and not (named or self.logs):
            raise ValueError("--for is for a job that Assay did not start; name one, or use --once")

    def answer(self) -> Answer:
        """What the dumps say, or every running trial, what is off first."""
        if self.flight_recorder is not None:
            return Dumps(flight_record(self.flight_recorder))
        return Running(running_trials(self.reference, runs=self.runs), runs_directory(self.runs))

    def snapshots(self, *, live: bool) -> Iterator[Snapshot] | None:
        """Screens of what is running, on a terminal; looks at a job that Assay did not start."""
        if self.nccl_ras is not None:
            return _snapshots_of_nccl(watch_nccl(self.nccl_ras, every=self.every, for_=self.for_))
        if samples := self._samples():
            from assay.monitor.questions.watch_samples import snapshots_of_samples
            from assay.monitor.watching_logs import watched_logs

            logs = watched_logs([Path(log) for log in self.logs], self.step_pattern) if self.logs else None
            snapshots = snapshots_of_samples(samples, logs, live=live)
            return snapshots if logs is None else chain(snapshots, _end_of_logs(logs))
        if self.logs:
            return _snapshots_of_logs(
                watch_logs(self.logs, step_pattern=self.step_pattern, every=self.every, for_=self.for_)
            )
        return self._screens() if live and not self.once and self.flight_recorder is None else None

    def _samples(self) -> Iterator[Sample] | None:
        if self.pid is not None:
            return watch(self.pid, every=self.every, for_=self.for_)
        if self.slurm_job is None and self.kubernetes is None:
            return None
        from assay.monitor.questions.watch_samples import once_per

        job = watch_job(
            slurm_job=self.slurm_job,
            kubernetes=self.kubernetes,
            every=self.every,
            for_=self.for_,
            python=self.python,
        )
        return once_per(seconds(self.every), job)

    def _screens(self) -> Iterator[Snapshot]:
        while True:
            yield Snapshot(screen=tuple(self.answer().view()), is_whole=True)
            time.sleep(seconds(self.every))


@dataclass(frozen=True)
class Dumps(Answer):
    """What dumps of torch's flight recorder say."""

    record: FlightRecord

    @property
    def exit_code(self) -> int:
        """1 if a rank is named."""
        return EXIT_WORSE if self.record.stops or self.record.stragglers else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Who is missing, who is slow, and what could not be seen."""
        from assay.monitor.questions.watch_sentences import describe_record

        return map(Paragraph, describe_record(self.record))

    def document(self) -> dict[str, Any]:
        """The record."""
        return self.record.document()


def _snapshots_of_nccl(answers: Iterator[RasWatch]) -> Iterator[Snapshot]:
    from assay.monitor.questions.watch_sentences import describe_communicators

    for watched in answers:
        exit_code = EXIT_WORSE if watched.names_a_rank else EXIT_OK
        yield Snapshot(tuple(describe_communicators(watched)), (watched.document(),), exit_code=exit_code)


def _snapshots_of_logs(looks: Iterator[WatchedLogs]) -> Iterator[Snapshot]:
    from assay.monitor.questions.watch_sentences import describe_logs

    logs = None
    for logs in looks:
        yield Snapshot(tuple(describe_logs(logs, only_off=False)), (logs.document(),))
    if logs is not None:
        yield from _end_of_logs(logs)


def _end_of_logs(logs: WatchedLogs) -> Iterator[Snapshot]:
    from assay.monitor.questions.watch_sentences import describe_silent_logs

    yield Snapshot(
        notes=tuple(describe_silent_logs(logs)), exit_code=EXIT_WORSE if logs.names_a_rank else EXIT_OK
    )


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
    from assay.monitor.watching_logs import watch as watched
    from assay.monitor.watching_logs import watched_logs

    return watched(watched_logs([Path(path) for path in paths], step_pattern), *_times(every, for_))


def flight_record(directory: str | PathLike[str]) -> FlightRecord:
    """What dumps of torch's flight recorder say, like `assay watch --flight-recorder`.

    directory  with a file per rank, whose name ends with the rank's number

    Raises InputError with every file that is no dump; nothing in a dump is run.
    """
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

"""One attempt at one trial, from the intent on disk to the final state on disk.

Assay may be killed between any two lines of this file. It then leaves one of these: nothing; an attempt that
is SUBMITTING, whose token the launcher knows or never will; an attempt that is RUNNING, whose job is found by
its handle; or a final attempt whose job is not yet removed. `take_over` resumes from each.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from assay import provenance, read
from assay.analyse.points.encounters import others_cpus
from assay.errors import AssayError, LaunchError, PlatformError, UnansweredError
from assay.frame_manifest import kept_inputs, with_frames
from assay.inputs import read_whole, sha256
from assay.launch.launcher import JobLostError, JobRefusedError, Launcher
from assay.plan import job_of, task_of
from assay.records import (
    Extent,
    Handle,
    JobState,
    JobStatus,
    NodeCounts,
    Output,
    Provenance,
    Run,
    RunState,
    Scalar,
    StreamEnd,
    Task,
    Trial,
)
from assay.run.progress import last_line, own_cause
from assay.run.stopping import StopRequest
from assay.run.trial_state import extent_of, narrowed, not_installed
from assay.rundir.session import Attempt, Session
from assay.telemetry import recorded
from assay.telemetry.samples import STREAM
from assay.units import counted, human, percent

FLOOD_SLACK_BYTES = 1 << 30  # a keeper checks four times a second, and disks write up to 2 GB per second
WHY_EVERY_S = 2.0  # between checks of what a silent job waits for


class Watcher(Protocol):
    """The receiver of a running job's output."""

    def printed(self, output: Output) -> None:
        """New bytes, already stored."""
        ...

    def waited(self, why: str) -> None:
        """Nothing new at the moment; why: what the job waits for, "" if it is running or this is unknown."""
        ...

    def noted(self, message: str) -> None:
        """Something that the user should know, although it changes no result."""
        ...


@dataclass(frozen=True)
class Execution:
    """The context of an attempt.

    facts  known only here and added to each node's provenance: the suite's git state
    runs   of the session so far
    """

    session: Session
    launcher: Launcher
    watcher: Watcher
    stop: StopRequest
    facts: Mapping[str, Scalar]
    runs: Callable[[], Iterable[Run]]


def begin(execution: Execution, trial: Trial) -> tuple[Attempt, Run]:
    """Run the trial anew; returns its attempt in a final state.

    Raises InputError for a trial that can't run there, HostError if this machine can't continue,
    PlatformError if no job can be submitted, UnansweredError if the platform does not say whether it
    accepted the job. After the last two the attempt is still SUBMITTING: `take_over` finds out.
    """
    job = with_frames(job_of(trial, uuid.uuid4().hex))
    task, rendered = job.task, execution.launcher.render(job)
    attempt, run = execution.session.begin(trial, job.token, rendered, kept_inputs(job))
    try:
        handle = execution.launcher.submit(job)
    except UnansweredError as error:
        raise UnansweredError(
            f"{error}; it is unknown whether the job was accepted: the same command checks that and resumes"
        ) from error
    except PlatformError as error:
        raise PlatformError(f"{error}; {_resumed(execution.session)}") from error
    except JobLostError as error:
        return attempt, _settle(execution, attempt, run, JobStatus(JobState.LOST, str(error)), task)
    except LaunchError as error:
        extent = error.extent if isinstance(error, JobRefusedError) else Extent.POINT
        refused = JobStatus(JobState.FAILED, str(error), extent=extent)
        return attempt, _settle(execution, attempt, run, refused, task)
    run = replace(run, state=RunState.RUNNING, handle=handle, started_at=time.time())
    # No fsync: if the machine itself goes down, the handle is worthless, and the token is on disk.
    attempt.write_run(run, lasting=False)
    return attempt, _bring_in(execution, attempt, run, handle, task)


def take_over(execution: Execution, attempt: Attempt, run: Run, trial: Trial) -> Run:
    """Resume an attempt that another Assay left; returns its final state.

    trial  as planned now: the record on disk has no secrets
    """
    attempt.sweep()
    task = task_of(trial)
    handle = run.handle or execution.launcher.find(run.token)
    run = replace(run, adopted=True)
    if handle is None:
        lost = JobStatus(JobState.LOST, "it never started: Assay was stopped while submitting the job")
        run = _settle(execution, attempt, run, lost, task)
        with _noting(run.trial.system, execution.watcher.noted):  # what kept it from starting goes, too
            execution.launcher.discard([run.token])
        return run
    run = replace(run, state=RunState.RUNNING, handle=handle)
    attempt.write_run(run, lasting=False)
    return _bring_in(execution, attempt, run, handle, task)


def _bring_in(execution: Execution, attempt: Attempt, run: Run, handle: Handle, task: Task) -> Run:
    """Store what the job prints until it has ended, then settle it.

    Raises PlatformError, after settling it, if every other trial would fail in the same way.
    """
    attempt.append("rank-0", b"")  # a program that prints nothing has an empty log, not a missing one
    flood = _follow(execution, attempt, handle, _most_bytes(run.trial))
    status = execution.launcher.status(handle)
    if flood and status.state is not JobState.FAILED:
        status = replace(status, state=JobState.FAILED, cause=flood)
    run = _settle(execution, attempt, run, status, task)
    if run.extent is Extent.PLATFORM:
        raise PlatformError(f"{run.cause}; {_resumed(execution.session)}")
    return run


def _resumed(session: Session) -> str:
    return f"no trial counts as failed because of it: fix it, and the same command resumes {session.id}"


def _most_bytes(trial: Trial) -> float:
    """Limit on a trial's stored output, over all nodes, plus what arrives before a keeper ends a flood."""
    if trial.max_output_bytes is None:
        return math.inf
    return trial.max_output_bytes * trial.shape.workers + FLOOD_SLACK_BYTES


def _follow(execution: Execution, attempt: Attempt, handle: Handle, most_bytes: float) -> str:
    """Store the output until the job has ended; returns why it was ended for its output, "" if it was not.

    A job whose output can't be stored is ended, too: it must not keep running unseen.
    """
    kept, flood = sum(attempt.kept().values()), ""
    told_to_end, why, looked_at = False, "", time.monotonic()
    try:
        for output in execution.launcher.follow(handle, attempt.kept()):
            if output is None:
                if time.monotonic() - looked_at > WHY_EVERY_S:
                    status, looked_at = execution.launcher.status(handle), time.monotonic()
                    why = "" if status.state.final else status.cause
                execution.watcher.waited(why)
            elif not flood:
                attempt.append(output.stream, output.data)
                execution.watcher.printed(output)
                kept += len(output.data)
                if kept > most_bytes:  # its keeper should have ended it
                    flood = (
                        f"{human(kept, 'B')} of output arrived, more than max_output; the rest was dropped"
                    )
            if (execution.stop.made or flood) and not told_to_end:
                told_to_end = True  # its output up to the end is stored anyway
                execution.watcher.waited("its ranks to end, as requested")
                execution.launcher.cancel(handle)
    except AssayError:
        if not told_to_end:
            execution.launcher.cancel(handle)
        raise
    return flood


def _settle(execution: Execution, attempt: Attempt, run: Run, status: JobStatus, task: Task) -> Run:
    """Store what there is, judge it, move to the final state; only then does the launcher remove the job."""
    never_ran = status.started_at is None and status.state in (JobState.FAILED, JobState.LOST)
    if execution.stop.made and (never_ran or status.state is JobState.STOPPED):
        status = replace(status, state=JobState.CANCELLED)  # a shutdown, or a batch system, ends both
    missing = _not_whole(attempt, status)
    if (
        missing and status.state is JobState.SUCCEEDED
    ):  # effectively lost, but not through the program's fault
        status = replace(status, state=JobState.LOST)
    problems = missing + _keep_outputs(execution, attempt, run, task)
    recorded.store(attempt.path)
    nodes = tuple(_nodes(execution, attempt, status))
    if nodes:
        attempt.write_provenance(Provenance(nodes))
    run = replace(
        run,
        job=status.state,
        exits=status.exits,
        nodes=status.nodes,
        places=_places(run.trial.shape.ranks, status.hosts),
        started_at=status.started_at or run.started_at,
        ended_at=status.ended_at or time.time(),
        collected_at=time.time(),
        secrets=attempt.secret_places(),
    )
    if status.state is JobState.SUCCEEDED:
        with execution.stop.at_once():
            reading_problems = read.reading(attempt, run).problems
        problems = (*filter(None, [status.cause]), *problems, *reading_problems)
    else:
        ended = status.cause or ("" if problems else status.state.value)
        if status.state is JobState.TIMED_OUT:
            ended = "; ".join(filter(None, (ended, cpu_use(status.nodes))))
        last_printed = last_line(attempt, status.exits) if status.state is JobState.FAILED else ""
        why = own_cause(last_printed) or not_installed(last_printed)
        problems = (*filter(None, [": ".join(filter(None, (ended, why)))]), *problems)
        extent = narrowed(extent_of(status, task, last_printed), run.trial, execution.runs())
        run = replace(run, extent=extent)
    run = replace(run, state=RunState.FAILED if problems else RunState.FINISHED, cause="; ".join(problems))
    attempt.settle(run)
    if run.handle is not None:
        forget(execution.launcher, run.trial.system, run.handle, execution.watcher.noted)
    return run


def forget(launcher: Launcher, system: str, handle: Handle, note: Callable[[str], None]) -> None:
    """Have the launcher remove a settled job."""
    with _noting(system, note):
        launcher.forget(handle)


@contextmanager
def _noting(system: str, note: Callable[[str], None]) -> Iterator[None]:
    """What remains on the platform of a settled job is noted, and no failure. Raises PlatformError."""
    try:
        yield
    except PlatformError:
        raise
    except LaunchError as error:
        note(f"{system}: {error}")


def _places(ranks: int, hosts: Sequence[str]) -> tuple[str, ...]:
    """The node of each rank, if every keeper's node has the same number of ranks."""
    return tuple(hosts[rank * len(hosts) // ranks] for rank in range(ranks)) if any(hosts) else ()


def _nodes(execution: Execution, attempt: Attempt, status: JobStatus) -> Iterator[Mapping[str, Scalar]]:
    """Facts of each node whose probe printed something: its own, the launcher's, and the session's."""
    for name, log in attempt.logs().items():
        if name.startswith("probe-"):
            known = {
                **execution.facts,
                **status.facts,
                **status.node_facts.get(name.removesuffix(".log"), {}),
            }
            yield from provenance.parse([read_whole(log).decode(errors="replace")], known).nodes


def _not_whole(attempt: Attempt, status: JobStatus) -> tuple[str, ...]:
    """Logs that lack what the job reports it printed: a failed collection, not a shorter result.

    Lost samples are a gap in what is known of the nodes, but change no result.
    """
    logs = attempt.logs()
    return tuple(
        difference
        for name, end in sorted(status.streams.items())
        if not name.startswith(STREAM)
        and (difference := _difference(name, logs.get(f"{name}.log"), end)) is not None
    )


def _difference(name: str, log: Path | None, end: StreamEnd) -> str | None:
    size = log.stat().st_size if log else 0
    if size != end.bytes:
        return (
            f"{name}: the job printed {counted(end.bytes, 'byte')} in {counted(end.lines, 'line')}, but "
            f"{counted(size, 'byte')} arrived: output was lost in transit, so its figures are not used"
        )
    if log is not None and sha256(log) != end.sha256:
        return f"{name}: {size} bytes arrived, as many as the job printed, but they differ: they are not used"
    return None


def _keep_outputs(execution: Execution, attempt: Attempt, run: Run, task: Task) -> tuple[str, ...]:
    """Problems with the files that the task wants to keep; a glob may match nothing, a name may not."""
    if run.handle is None or not task.outputs:
        return ()
    try:
        kept = attempt.keep_outputs(execution.launcher.fetch(run.handle, task.outputs))
    except PlatformError:
        raise
    except LaunchError as error:
        return (str(error),)
    missing = [name for name in task.outputs if not set(name) & set("*?[") and name not in kept]
    return tuple(f"{name}: the job should have written this file, but did not" for name in missing)


def cpu_use(nodes: Sequence[NodeCounts]) -> str:
    """What a job and others used of its CPUs' time, on the node where the job used least; "" if unknown.

    Time in which the job was suspended does not count; what others used then can't be told apart.

    >>> cpu_use([NodeCounts(elapsed_s=100.0, cpus=2, busy_cpu_s=200.0, job_cpu_s=50.0)])
    'it used 25 % of the time of its 2 CPUs, others 75 %'
    """
    known = [(node.job_cpu_s / _cpu_s(node), node) for node in nodes if node.job_cpu_s is not None]
    if not known:
        return ""
    own, node = min(known, key=lambda pair: pair[0])
    others = None if node.suspended_s else others_cpus(node)
    there = " on the node where it used least" if len(known) > 1 else ""
    beside = "" if others is None else f", others {percent(others / node.cpus)}"
    return f"it used {percent(own)} of the time of its {counted(node.cpus, 'CPU')}{there}{beside}"


def _cpu_s(node: NodeCounts) -> float:
    return node.cpus * (node.elapsed_s - (node.suspended_s or 0.0))

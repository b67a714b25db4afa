"""One attempt at one trial, from the intent on disk to the final state on disk.

Assay may be killed between any two lines of this file. What it leaves is one of: nothing; an attempt that
is SUBMITTING, whose token the launcher knows or never will; one that is RUNNING, whose job is found by its
handle; or a final one whose job is yet to be forgotten. `take_over` goes on from each.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from assay import durable, provenance, read
from assay.errors import AssayError, LaunchError, PlatformError, UnansweredError
from assay.inputs import read_whole
from assay.launch.launcher import JobLostError, JobRefusedError, Launcher
from assay.plan import job_of, task_of
from assay.records import (
    Extent,
    Handle,
    JobState,
    JobStatus,
    Output,
    Provenance,
    Run,
    RunState,
    Scalar,
    StreamEnd,
    Task,
    Trial,
)
from assay.run.extents import extent_of, narrowed, not_installed
from assay.run.last_words import last_line, own_cause
from assay.run.stopping import StopRequest
from assay.rundir.session import Attempt, Session
from assay.units import counted, human

FLOOD_SLACK_BYTES = 1 << 30  # a keeper looks four times a second at what disks take at 2 GB a second
WHY_EVERY_S = 2.0  # between looks at what a silent job waits for


class Watcher(Protocol):
    """Who is told what a job prints while it runs."""

    def printed(self, output: Output) -> None:
        """New bytes, already kept."""
        ...

    def waited(self, why: str) -> None:
        """Nothing new for a moment; why: what the job waits for, "" where it runs or nobody knows."""
        ...


@dataclass(frozen=True)
class Execution:
    """What an attempt needs around it.

    facts  what is known only here, added to each node's provenance: the suite's git state
    runs   of the session so far
    """

    session: Session
    launcher: Launcher
    watcher: Watcher
    stop: StopRequest
    facts: Mapping[str, Scalar]
    runs: Callable[[], Iterable[Run]]


def begin(execution: Execution, trial: Trial) -> tuple[Attempt, Run]:
    """Run the trial anew; gives its attempt in a final state.

    Raises InputError for a trial that can't be run there, HostError when this machine can't go on,
    PlatformError where no job can be submitted, UnansweredError where the platform does not say whether it
    took the job. After both the attempt is still SUBMITTING: `take_over` finds out.
    """
    job = job_of(trial, uuid.uuid4().hex)
    task = job.task
    attempt, run = execution.session.begin(trial, job.token, execution.launcher.render(job))
    try:
        handle = execution.launcher.submit(job)
    except UnansweredError as error:
        raise UnansweredError(
            f"{error}; whether the job was taken is not known: the same command asks again and goes on"
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
    # No fsync: where the machine itself goes down the handle is worth nothing, and the token is on the disk.
    attempt.write_run(run, lasting=False)
    return attempt, _bring_in(execution, attempt, run, handle, task)


def take_over(execution: Execution, attempt: Attempt, run: Run, trial: Trial) -> Run:
    """Go on with an attempt that another Assay left: gives its final state.

    trial  as planned now: the record on disk has lost its secrets
    """
    attempt.sweep()
    task = task_of(trial)
    handle = run.handle or execution.launcher.find(run.token)
    run = replace(run, adopted=True)
    if handle is None:
        lost = JobStatus(JobState.LOST, "it never started: Assay was stopped while it submitted the job")
        return _settle(execution, attempt, run, lost, task)
    run = replace(run, state=RunState.RUNNING, handle=handle)
    attempt.write_run(run, lasting=False)
    return _bring_in(execution, attempt, run, handle, task)


def _bring_in(execution: Execution, attempt: Attempt, run: Run, handle: Handle, task: Task) -> Run:
    """Keep what the job prints until it has ended, then settle it.

    Raises PlatformError once it is settled, where no trial could have gone better.
    """
    attempt.append("rank-0", b"")  # a program that prints nothing has an empty log, not none
    try:
        flood = _follow(execution, attempt, handle, _most_bytes(run.trial))
    except AssayError:
        execution.launcher.cancel(handle)  # a job whose output can't be kept is not left running unseen
        raise
    status = execution.launcher.status(handle)
    if flood and status.state is not JobState.FAILED:
        status = replace(status, state=JobState.FAILED, cause=flood)
    run = _settle(execution, attempt, run, status, task)
    if run.extent is Extent.PLATFORM:
        raise PlatformError(f"{run.cause}; {_resumed(execution.session)}")
    return run


def _resumed(session: Session) -> str:
    return f"no trial counts as failed for it: fix it, and the same command resumes {session.id}"


def _most_bytes(trial: Trial) -> float:
    """What may be kept of a trial's output: all its nodes', and what comes before a keeper ends a flood."""
    if trial.max_output_bytes is None:
        return math.inf
    return trial.max_output_bytes * trial.shape.workers + FLOOD_SLACK_BYTES


def _follow(execution: Execution, attempt: Attempt, handle: Handle, most_bytes: float) -> str:
    """Keep what is printed until the job has ended; why it was ended for its output, "" where it was not."""
    kept, flood = sum(attempt.kept().values()), ""
    cancelled, why, looked_at = False, "", time.monotonic()
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
                flood = f"{human(kept, 'B')} of output came, more than max_output; the rest was not kept"
        if (execution.stop.made or flood) and not cancelled:
            execution.watcher.waited("the end of its ranks, which were asked to end")
            execution.launcher.cancel(handle)
            cancelled = True  # what it printed to its end is kept all the same
    return flood


def _settle(execution: Execution, attempt: Attempt, run: Run, status: JobStatus, task: Task) -> Run:
    """Keep what there is, judge it, and move to the final state; the launcher forgets only after that."""
    if status.state is JobState.STOPPED and execution.stop.made:
        status = replace(status, state=JobState.CANCELLED)  # a shutdown, or a batch system, ends both
    missing = _not_whole(attempt, status)
    if missing and status.state is JobState.SUCCEEDED:  # as good as lost, and not by the program's fault
        status = replace(status, state=JobState.LOST)
    problems = missing + _keep_outputs(execution, attempt, run, task)
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
            found = read.reading(attempt, run).problems
        problems = (*filter(None, [status.cause]), *problems, *found)
    else:
        ended = status.cause or ("" if problems else status.state.value)
        said = last_line(attempt, status.exits) if status.state is JobState.FAILED else ""
        why = own_cause(said) or not_installed(said)
        problems = (*filter(None, [": ".join(filter(None, (ended, why)))]), *problems)
        extent = narrowed(extent_of(status, task, said), run.trial, execution.runs())
        run = replace(run, extent=extent)
    run = replace(run, state=RunState.FAILED if problems else RunState.FINISHED, cause="; ".join(problems))
    attempt.settle(run)
    if run.handle is not None:
        execution.launcher.forget(run.handle)
    return run


def _places(ranks: int, hosts: Sequence[str]) -> tuple[str, ...]:
    """The node of each rank, where each keeper's node has as many."""
    return tuple(hosts[rank * len(hosts) // ranks] for rank in range(ranks)) if any(hosts) else ()


def _nodes(execution: Execution, attempt: Attempt, status: JobStatus) -> Iterator[Mapping[str, Scalar]]:
    """Facts of each node whose probe printed something: its own, the launcher's, the session's."""
    for name, log in attempt.logs().items():
        if name.startswith("probe-"):
            known = {
                **execution.facts,
                **status.facts,
                **status.node_facts.get(name.removesuffix(".log"), {}),
            }
            yield from provenance.parse([read_whole(log).decode(errors="replace")], known).nodes


def _not_whole(attempt: Attempt, status: JobStatus) -> tuple[str, ...]:
    """Logs that don't hold what the job says it printed: a collection that failed, not a shorter result."""
    logs = attempt.logs()
    return tuple(
        words
        for name, end in sorted(status.streams.items())
        if (words := _difference(name, logs.get(f"{name}.log"), end)) is not None
    )


def _difference(name: str, log: Path | None, end: StreamEnd) -> str | None:
    size = log.stat().st_size if log else 0
    if size != end.bytes:
        return (
            f"{name}: the job printed {counted(end.bytes, 'byte')} in {counted(end.lines, 'line')} and "
            f"{counted(size, 'byte')} arrived: output was lost on the way, the figures in it are not used"
        )
    if log is not None and durable.sha256(log) != end.sha256:
        return (
            f"{name}: {size} bytes arrived, as many as the job printed, but not the same: they are not used"
        )
    return None


def _keep_outputs(execution: Execution, attempt: Attempt, run: Run, task: Task) -> tuple[str, ...]:
    """What is wrong with the files that the task asked to keep; a glob may match nothing, a name may not."""
    if run.handle is None or not task.outputs:
        return ()
    try:
        kept = attempt.keep_outputs(execution.launcher.fetch(run.handle, task.outputs))
    except PlatformError:
        raise
    except LaunchError as error:
        return (str(error),)
    missing = [name for name in task.outputs if not set(name) & set("*?[") and name not in kept]
    return tuple(f"{name}: the job was to write this file and did not" for name in missing)

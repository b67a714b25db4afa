"""What runs left on a system and in the runs directory, and what may be removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from assay import launch
from assay.errors import BusyError, InputError
from assay.launch import spool
from assay.launch.job_directory import JobDirectory
from assay.launch.launcher import Leftover
from assay.rundir import session as rundir
from assay.rundir.session import Session
from assay.suite.load import THIS_MACHINE
from assay.suite.model import System

QUIET_S = 600.0  # a job of an unknown run that ended this recently may still be collected elsewhere


@dataclass(frozen=True)
class KnownJob:
    """A job that the runs directory here knows.

    system    its trial's
    session   which would resume it; held: an Assay works on it now
    recorded  an attempt names it
    """

    system: str
    session: Session
    held: bool
    recorded: bool = True


@dataclass(frozen=True)
class Remains:
    """Everything that is left of one job.

    on_platform  what the platform has of it; directory: the job's own here; either may be missing
    session      whose job it is, if the runs directory here knows it
    going        why it counts as part of a run that is still going; "" if it does not
    """

    system: str
    token: str
    on_platform: Leftover | None
    directory: Path | None
    session: Session | None
    going: str

    @property
    def what(self) -> tuple[str, ...]:
        """Each thing, as text."""
        platform = () if self.on_platform is None else self.on_platform.what
        return (*platform, *(() if self.directory is None else (f"directory {self.directory}",)))


def known(runs_dir: Path) -> dict[str, KnownJob]:
    """Jobs by token: of every attempt that is not settled, and of everything in a session's spool.

    A directory there that no attempt names belongs to this machine: its attempt was removed or is damaged.
    """
    jobs: dict[str, KnownJob] = {}
    for session in (*rundir.sessions(runs_dir), *rundir.sessions(runs_dir / rundir.FIRST_RUNS)):
        lying = {path.name for path in session.spool.glob("*")}
        if not lying and _is_complete(session):
            continue
        held = _is_held(session)
        jobs |= {token: KnownJob(THIS_MACHINE, session, held, recorded=False) for token in lying}
        for attempt in session.attempts():
            with suppress(
                InputError
            ):  # a damaged record: what it started is found by its token, like any other
                run = attempt.run()
                if run.token in lying or not run.state.final:
                    jobs[run.token] = KnownJob(run.trial.system, session, held)
    return jobs


def remains(system: System, jobs: Mapping[str, KnownJob]) -> Iterator[Remains]:
    """What is left of jobs of one system. Raises LaunchError if its platform can't be queried.

    A job that the runs directory assigns to another system belongs to that one, whoever lists it.
    """
    launcher = launch.make(system.launcher, system.options, spool=Path("jobs"))
    on_platform = {left.token: left for left in launcher.leftovers()}
    own = {token for token, job in jobs.items() if job.system == system.name}
    lying = {token for token in own if (jobs[token].session.spool / token).exists()}
    for token in sorted((on_platform.keys() - (jobs.keys() - own)) | lying):
        job, left = jobs.get(token), on_platform.get(token)
        directory = job.session.spool / token if job is not None and token in lying else None
        session = None if job is None else job.session
        yield Remains(system.name, token, left, directory, session, _why_going(job, left, directory))


def remove(system: System, doomed: Sequence[Remains], *, running: bool = False) -> None:
    """Remove these from the platform, then from here, while no Assay can start to work on their sessions.

    running  also those of a session that an Assay works on

    Raises BusyError if one has started in the meantime, LaunchError if something remains.
    """
    sessions = {left.session.path: left.session for left in doomed if left.session is not None}
    with ExitStack() as held:
        for _, session in () if running else sorted(sessions.items()):
            held.enter_context(session.lock())
        launcher = launch.make(system.launcher, system.options, spool=Path("jobs"))
        launcher.discard([left.token for left in doomed if left.on_platform is not None])
        for left in doomed:
            if left.directory is not None:
                spool.remove(left.directory)


def _why_going(job: KnownJob | None, left: Leftover | None, directory: Path | None) -> str:
    if job is not None and job.held:
        return f"{job.session.id} is running"
    if left is None and directory is not None and job is not None and not job.recorded:
        over = JobDirectory(directory).is_over()
        return (
            ""
            if over
            else "no record says which system it belongs to, so it is unknown whether it is running"
        )
    if left is None:
        return ""
    if left.runs:
        return "it is running, or waiting to run" + ("" if job is None else "; `assay run` takes it over")
    age_s = None if left.changed_at is None else time.time() - left.changed_at
    if job is None and age_s is not None and age_s < QUIET_S:
        return f"it ended {max(age_s, 0):.0f} s ago: another Assay may be collecting it"
    return ""


def _is_complete(session: Session) -> bool:
    try:
        return bool(session.header.content) or session.header.finished_at is not None
    except InputError:  # damaged: then each attempt is checked
        return False


def _is_held(session: Session) -> bool:
    try:
        with session.lock():
            return False
    except BusyError:
        return True

"""The session that a command works on: the newest unfinished one of an equal plan, otherwise a new one.

To repeat failed trials, it is the newest session of an equal plan, finished or not.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from assay import read, shell
from assay.errors import HostError, InputError
from assay.records import Plan, Scalar, Trial, from_json
from assay.redact import redacted_json, redacted_yaml
from assay.run.request import PlannedRun, RunRequest
from assay.run.trial_state import TrialState, trial_state, was_hindered
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA, Header, record_json
from assay.rundir.session import Session
from assay.suite.document import Document
from assay.version import __version__

_TRAVELS = "a program that is sent with the trials, Assay's or the suite's,"


@contextmanager
def held_session(run: PlannedRun) -> Iterator[Session]:
    """The session to work on, locked; the choice itself is locked only until the session is."""
    request, planned = run.request, run.plan
    with ExitStack() as held:
        with rundir.choosing(request.runs_dir, planned.suite):
            session = _to_repeat(request, planned) if request.failed else _to_resume(run)
            held.enter_context(session.lock())
        if session.lost_files or session.header.plan_digest != planned.digest:
            rundir.replan(session, planned, _inputs(run))
        if request.failed and (failed := failed_trials(session, planned)):
            rundir.reopen(session, failed)
        yield session


def _to_resume(run: PlannedRun) -> Session:
    request = run.request
    unfinished = None if request.new else _unfinished(request.runs_dir, run.plan, request.begun_since)
    return unfinished or _create(run)


def _to_repeat(request: RunRequest, planned: Plan) -> Session:
    """The newest session of an equal plan. Raises InputError if there is none, or if that is unknown."""
    for session in reversed(rundir.all_of(request.runs_dir, planned.suite)):
        if "session.json" in session.lost_files and (problem := session.loss) is not None:
            raise InputError([replace(problem, what=f"{problem.what}. It may be the session to repeat")])
        if _is_of(session, planned):
            return session
    raise InputError(
        f"--failed: {request.runs_dir} has no session of {planned.suite} with this plan; failed trials can "
        "be repeated only if suite, systems, options, and the programs that the suite names are the same. "
        "Without --failed, a new session starts"
    )


def left_unfinished(session: Session, planned: Plan) -> str:
    """Why a new session starts although the previous one is unfinished; "" if none does."""
    earlier = [s for s in rundir.all_of(session.path.parents[1], planned.suite) if s.name < session.name]
    if not earlier or next(session.attempts(), None) is not None:
        return ""
    before = earlier[-1]
    if (problem := before.loss) is not None:
        return f"{problem}. This is a new session"
    if before.header.content or before.header.finished_at is not None:
        return ""
    if not (changed := _changed(before.plan(), from_json(Plan, record_json(planned)))):
        return ""
    tried, number = len(before.last_attempts()), len(before.plan().trials)
    return (
        f"{changed} since {before.id}, which stays unfinished ({tried} of {number} trials started): "
        "this is a new session, so that no session mixes the two"
    )


def _changed(before: Plan, now: Plan) -> str:
    """What differs between two plans of a suite, as a clause; "" if nothing does."""
    named = before.named_files, now.named_files
    files = [name for name in named[1] if name in named[0] and named[0][name] != named[1][name]]
    if files:
        return f"{', '.join(name.removeprefix('./') for name in files)} changed"
    if before.suite_digest != now.suite_digest:
        same = _undigested(before) == _undigested(now)
        return f"{_TRAVELS if same else 'the suite'} changed"
    if before.systems != now.systems:
        return "the systems to run changed"
    return "" if before.digest == now.digest else "the repeats, the order, or the systems' options changed"


def failed_trials(session: Session, planned: Plan) -> dict[str, int]:
    """Trials that are settled without a result, with the number of their last attempt."""
    failed = {}
    for trial in planned.trials:
        attempts = session.counting(trial.id)
        if trial_state(trial, [attempt.run() for attempt in attempts]) is not TrialState.DONE:
            continue
        if not read.result(attempts[-1]).counts:
            failed[trial.id] = attempts[-1].number
    return failed


def _unfinished(root: Path, planned: Plan, since: float) -> Session | None:
    """The newest session of an equal plan with something left to do."""
    for session in reversed(rundir.sessions_of(root, planned.suite)):
        header = session.header
        if header.created_at < since:
            return None
        if _is_of(session, planned) and _has_work(session, planned):
            return session
    return None


def _is_of(session: Session, planned: Plan) -> bool:
    """Whether a session was started with this plan, or with one since corrected where nothing ran."""
    header = session.header
    return not header.content and (header.plan_digest == planned.digest or _is_corrected(session, planned))


def _is_corrected(session: Session, planned: Plan) -> bool:
    """Whether the plan differs only in the options of systems that could not be used in the session."""
    if session.header.finished_at is not None or session.lost_files:
        return False
    before, now = session.plan(), from_json(Plan, record_json(planned))
    digests = {trial.id: trial.digest for trial in now.trials}
    changed = {trial.system for trial in before.trials if trial.digest != digests.get(trial.id)}
    if replace(before, digest=now.digest, trials=_undigested(before)) != replace(
        now, trials=_undigested(now)
    ):
        return False
    runs = (attempt.run() for attempt in session.attempts())
    return not any(run.trial.system in changed and not was_hindered(run) for run in runs)


def _undigested(plan: Plan) -> tuple[Trial, ...]:
    """Its trials without what follows from a version of Assay: digests, and how nodes are sampled."""
    return tuple(replace(trial, digest="", task_digest="", sample_every_s=None) for trial in plan.trials)


def _has_work(session: Session, planned: Plan) -> bool:
    """Whether it is not marked finished, or a trial's directory was removed since, to repeat it."""
    if session.header.finished_at is None:
        return True
    tried = {trial.id: bool(session.attempts_at(trial.id)) for trial in planned.trials}
    # a run until decided ends before its plan's last block
    last = (
        max((t.block for t in planned.trials if tried[t.id]), default=0) if planned.looks else planned.repeats
    )
    return not all(tried[trial.id] for trial in planned.trials if trial.block <= last)


def _create(run: PlannedRun) -> Session:
    request, planned = run.request, run.plan
    file = request.suite if isinstance(request.suite, Path) else None
    header = Header(
        schema=SCHEMA,
        assay_version=__version__,
        suite=planned.suite,
        suite_digest=planned.suite_digest,
        plan_digest=planned.digest,
        created_at=time.time(),
        host=socket.gethostname(),
        command_line=tuple(request.command_line),
        suite_file="" if file is None else str(file),
        git={} if file is None else git_state(file.resolve().parent),
        step_of=request.step_of,
    )
    return rundir.create(request.runs_dir, header, planned, {**_inputs(run), **request.beside})


def _inputs(run: PlannedRun) -> dict[str, str]:
    """Copies for people, as the user wrote them except for values that look like secrets."""
    inputs = {"suite.yaml": _redacted(run.suite.source)}
    if run.systems.source.text:
        inputs["systems.yaml"] = _redacted(run.systems.source)
    return inputs


def _redacted(document: Document) -> str:
    return (redacted_json if document.file.endswith(".json") else redacted_yaml)(document.text)


def git_state(directory: Path) -> dict[str, Scalar]:
    """`commit`, `branch` (if a branch is checked out), and `dirty`; empty without a repository or git.

    dirty  tracked files differ from the commit
    """
    try:
        status = shell.run(
            ["git", "-C", str(directory), "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            timeout_s=10,
            env={"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except HostError:  # no git, or a repository that is too slow: the suite's copy is stored anyway
        return {}
    if not status.ok:
        return {}
    state: dict[str, Scalar] = {"dirty": False}
    for line in status.stdout.splitlines():
        match line.split(" "):
            case ["#", "branch.oid", commit]:
                state["commit"] = commit
            case ["#", "branch.head", branch] if branch != "(detached)":
                state["branch"] = branch
            case [mark, *_] if mark != "#":
                state["dirty"] = True
    return state

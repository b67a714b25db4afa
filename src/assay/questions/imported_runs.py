"""What formats make of logs, as runs: of an answer, or kept as a session."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay import read
from assay.analyse.doubts.inference import doubts_of_inference
from assay.errors import InputError
from assay.formats.logged import LoggedRun, LoggedRuns
from assay.inputs import sha256
from assay.records import Run, RunState, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import public_word
from assay.rundir.imported import create, imported_run, imported_trial, numbered, refuse_a_suites_name
from assay.rundir.session import Session

UNKNOWN = "unknown"


@dataclass(frozen=True)
class ImportedSession:
    """The result of importing some of the paths.

    added  False if the same was already present
    notes  how they were understood, if that is worth knowing
    """

    session: Session
    runs: tuple[Run, ...]
    added: bool
    notes: tuple[str, ...]


def runs_of(logged: LoggedRuns, name: str) -> list[Run]:
    """The runs of a set of this name, in no session yet.

    Raises InputError if a name contains a secret, or if two folders of results become one point.
    """
    runs = [run_of(run, name) for run in logged.runs]
    folders: dict[str, str] = {}
    for run, own in zip(runs, logged.runs, strict=True):
        if folders.setdefault(run.trial.id, own.of_set) != own.of_set:
            raise InputError(
                f"{folders[run.trial.id]} and {own.of_set} both become {run.trial.id}: import them under two "
                "names, or state with --system that they are one system"
            )
    return [replace(run, plan_digest=logged.content) for run in numbered(runs)]


def run_of(logged: LoggedRun, name: str) -> Run:
    """The run of a set of this name, in no session yet. Raises InputError if a name contains a secret."""
    benchmark, system = (
        public_word(text, str(logged.logs[0])) or UNKNOWN for text in (logged.benchmark, logged.system)
    )
    trial = imported_trial(name, benchmark, logged.reader.name, system, logged.shape, logged.params)
    run = imported_run(replace(trial, seed=logged.seed), logged.source)
    problems = logged.reading.problems
    state = RunState.FAILED if problems else RunState.FINISHED
    return replace(run, state=state, cause="; ".join(problems), started_at=logged.started_at)


def keep(logged: LoggedRuns, runs_dir: Path, name: str, command_line: Sequence[str]) -> ImportedSession:
    """Keep runs with their logs as one session; the same bytes under a name are kept once.

    Raises InputError if the name is that of a suite that was run.
    """
    runs, notes = runs_of(logged, name), (*logged.notes, *_doubts(logged))
    with rundir.choosing(runs_dir, name):
        here = rundir.sessions_of(runs_dir, name)
        refuse_a_suites_name(here)
        known = next((session for session in here if session.header.content == logged.content), None)
        if known and known.header.finished_at is not None:
            return ImportedSession(known, kept_runs(known), added=False, notes=notes)
        session = known or create(
            runs_dir,
            [run.trial for run in runs],
            content=logged.content,
            primary_metric=_primary(runs, logged),
            command_line=command_line,
        )
        for run, own in zip(runs, logged.runs, strict=True):
            if session.attempts_at(run.trial.id):  # an import was killed halfway
                continue
            run_id, digest = f"{session.id}/{run.trial.id}", digest_of(sorted(map(sha256, own.logs)))
            named = replace(run, id=run_id, session=session.name, log_digest=digest)
            attempt = session.add(named, logs=own.logs, provenance=own.provenance)
            read.reading(attempt, named, None if own.reread else own.reading)
        rundir.mark_finished(session, time.time())
    return ImportedSession(session, kept_runs(session), added=True, notes=notes)


def kept_runs(session: Session) -> tuple[Run, ...]:
    """The runs of a session, each trial's last attempt."""
    return tuple(attempt.run() for attempt in session.last_attempts().values())


def _primary(runs: Sequence[Run], logged: LoggedRuns) -> Mapping[str, str]:
    """The metric of the first run of each benchmark."""
    pairs = zip(runs, logged.runs, strict=True)
    return {run.trial.benchmark: own.primary for run, own in reversed(list(pairs))}


def _doubts(logged: LoggedRuns) -> Iterator[str]:
    for run in logged.runs:
        if run.inference is not None:
            yield from (f"{run.source}: {d.code}: {d.evidence}" for d in doubts_of_inference(run.inference))

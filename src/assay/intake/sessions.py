"""Converts imported runs, from any source, to trials, runs, and a session, identified by their bytes."""

from __future__ import annotations

import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay import durable
from assay.errors import InputError
from assay.records import DEFAULT_MARGIN, Plan, Run, RunState, Shape, Trial, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA, Header, set_name
from assay.rundir.session import Session
from assay.version import __version__


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes, which are read once while the file stays as it is.

    Raises InputError if it can't be read.
    """
    try:
        about = path.stat()
        return _sha256(path, about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error


@lru_cache(maxsize=10_000)  # an import asks for a log's digest up to three times
def _sha256(path: Path, _inode: int, _size: int, _mtime_ns: int) -> str:
    return durable.sha256(path)


def digest_of_logs(logs: Iterable[Path]) -> str:
    """The same for logs with the same bytes, whatever their names. Raises InputError if one can't be read."""
    return digest_of(sorted(map(sha256, logs)))


def without_copies(paths: Sequence[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The files that differ in their bytes, the first of each, and a note on every other one.

    Raises InputError if one can't be read.
    """
    first: dict[str, Path] = {}
    notes = []
    for path in paths:
        kept = first.setdefault(sha256(path), path)
        if kept is not path:
            why = "named twice" if kept == path else f"a copy of {kept}, with the same bytes"
            notes.append(f"{path}: {why}: it counts once")
    return list(first.values()), tuple(notes)


UNKNOWN = "unknown"


@dataclass(frozen=True)
class ImportResult:
    """The outcome of importing the files.

    added  False if the same bytes had already been imported under this name
    notes  what the user should know about how they were interpreted
    """

    session: Session
    runs: tuple[Run, ...]
    added: bool
    notes: tuple[str, ...]


def suite_digest(name: str) -> str:
    """The suite digest of everything imported under a name: later imports are further sides."""
    return digest_of(["imported", name])


def imported_trial(
    suite: str, benchmark: str, workload: str, system: str, shape: Shape, params: Mapping[str, Any]
) -> Trial:
    """The point at which a run was made; its importer sets which repeat it was."""
    return Trial(
        id=f"{benchmark}-{shape}-{system}",
        suite=suite,
        benchmark=benchmark,
        workload=workload,
        system=system,
        shape=shape,
        params=params,
        varied={},
        block=0,
        seed=0,
        timeout_s=0.0,
        retries=0,
        digest=digest_of(["imported", benchmark, system, str(shape)]),
    )


def imported_run(trial: Trial, source: str) -> Run:
    """A finished run, created now and not in a session yet. source: the file or folder it was read from."""
    return Run(
        schema=SCHEMA,
        assay_version=__version__,
        id="",
        suite=trial.suite,
        suite_digest=suite_digest(trial.suite),
        plan_digest="",
        session="",
        interleaved=False,
        trial=trial,
        attempt=1,
        token=uuid.uuid4().hex,
        state=RunState.FINISHED,
        created_at=time.time(),
        source=source,
    )


def numbered(
    runs: Sequence[tuple[Run, tuple[Path, ...]]], content: str
) -> list[tuple[Run, tuple[Path, ...]]]:
    """The runs of one import, with each point's repeats in the given order."""
    numbers: Counter[str] = Counter()
    numbered_runs = []
    for run, logs in runs:
        stem = run.trial.id
        numbers[stem] += 1
        trial = replace(run.trial, id=f"{stem}-r{numbers[stem]:02}", block=numbers[stem])
        numbered_runs.append((replace(run, trial=trial, plan_digest=content), logs))
    return numbered_runs


def keep_logs(
    runs_dir: Path,
    runs: Sequence[tuple[Run, tuple[Path, ...]]],
    *,
    content: str,
    primary_metric: Mapping[str, str],
    command_line: Sequence[str],
    notes: tuple[str, ...],
) -> ImportResult:
    """Runs of one suite, at least one, with their logs as one session; equal content is stored once.

    Raises InputError if the suite's name is invalid, or is that of a suite that was run.
    """
    trials = [run.trial for run, _ in runs]
    name = set_name(trials[0].suite)
    with rundir.choosing(runs_dir, name):
        here = rundir.sessions_of(runs_dir, name)
        if any(not session.header.content for session in here):
            raise InputError(f"--name {name}: has runs of a suite with that name; choose another name")
        known = [session for session in here if session.header.content == content]
        if known and known[0].header.finished_at is not None:
            kept = tuple(attempt.run() for attempt in known[0].last_attempts().values())
            return ImportResult(known[0], kept, added=False, notes=notes)
        session = (
            known[0]
            if known
            else create(
                runs_dir, trials, content=content, primary_metric=primary_metric, command_line=command_line
            )
        )
        for run, logs in runs:
            if not session.attempts_at(run.trial.id):  # exists if an import was killed halfway
                run_id = f"{session.id}/{run.trial.id}"
                named = replace(run, id=run_id, session=session.name, log_digest=digest_of_logs(logs))
                session.add(named, logs=logs)
        rundir.mark_finished(session, time.time())
    return ImportResult(
        session, tuple(a.run() for a in session.last_attempts().values()), added=True, notes=notes
    )


def create(
    runs_dir: Path,
    trials: Sequence[Trial],
    *,
    content: str,
    primary_metric: Mapping[str, str],
    command_line: Sequence[str],
    name: str | None = None,
) -> Session:
    """An empty session for these trials, at least one, of one suite.

    content  digest of what is imported, which identifies the import
    name     of the session; None: its start, UTC
    """
    suite = trials[0].suite
    plan = Plan(
        suite=suite,
        suite_digest=suite_digest(suite),
        digest=content,
        seed=0,
        repeats=max(trial.block for trial in trials),
        systems=tuple(dict.fromkeys(trial.system for trial in trials)),
        baseline=None,
        margin=DEFAULT_MARGIN,
        interleaved=False,
        primary_metric=dict(primary_metric),
        expectations={},
        trials=tuple(trials),
    )
    header = Header(
        schema=SCHEMA,
        assay_version=__version__,
        suite=suite,
        suite_digest=plan.suite_digest,
        plan_digest=content,
        created_at=time.time(),
        host=socket.gethostname(),
        command_line=tuple(command_line),
        content=content,
    )
    return rundir.create(runs_dir, header, plan, {}, name=name)

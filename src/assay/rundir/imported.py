"""Imported runs, from any source, as trials, runs, and a session, identified by their bytes."""

from __future__ import annotations

import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.records import DEFAULT_MARGIN, Plan, Run, RunState, Shape, Trial, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA, Header
from assay.rundir.session import Session
from assay.version import __version__


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


def numbered(runs: Sequence[Run]) -> list[Run]:
    """The runs of one import, with each point's repeats in the given order."""
    numbers: Counter[str] = Counter()
    numbered_runs = []
    for run in runs:
        stem = run.trial.id
        numbers[stem] += 1
        trial = replace(run.trial, id=f"{stem}-r{numbers[stem]:02}", block=numbers[stem])
        numbered_runs.append(replace(run, trial=trial))
    return numbered_runs


def refuse_a_suites_name(sessions: Iterable[Session]) -> None:
    """Raises InputError if one of these sessions, which have the name of an import, was run."""
    if suite := next((session.header.suite for session in sessions if not session.header.content), None):
        raise InputError(f"--name {suite}: has runs of a suite with that name; choose another name")


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

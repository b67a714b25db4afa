"""What runs that others made become, whatever they were read from: trials, runs and a session."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import __version__
from assay.records import Plan, Run, RunState, Shape, Trial, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA, Header
from assay.rundir.session import Session

UNKNOWN = "unknown"
DEFAULT_MARGIN = 0.02


@dataclass(frozen=True)
class Imported:
    """What became of the files.

    added  False where the same bytes had been imported under this name before
    notes  what the user should know of how they were understood
    """

    session: Session
    runs: tuple[Run, ...]
    added: bool
    notes: tuple[str, ...]


def suite_digest(name: str) -> str:
    """Of all that is imported under a name: later imports are further sides."""
    return digest_of(["imported", name])


def imported_trial(
    suite: str, benchmark: str, workload: str, system: str, shape: Shape, params: Mapping[str, Any]
) -> Trial:
    """The point that a run was made at; which repetition it was is for its importer to say."""
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
    """A finished run, made now and of no session yet. source: the file or folder that it was read from."""
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

    content  digest of what is imported: it tells one import from another
    name     the session's own; None: its start, UTC
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

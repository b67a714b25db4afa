"""Sessions that ended, as run directories with the logs that a test gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.records import Plan, Run, RunState, Shape, Trial, to_json
from assay.rundir.files import SCHEMA, Header


def a_trial(suite: str, system: str, block: int, *, workload: str, params: Mapping[str, object]) -> Trial:
    """A trial of one rank whose benchmark is `matmul`."""
    return Trial(
        id=f"matmul-1x1-{system}-r{block:02}",
        suite=suite,
        benchmark="matmul",
        workload=workload,
        system=system,
        shape=Shape(1, 1),
        params=dict(params),
        varied={},
        block=block,
        seed=block,
        timeout_s=60.0,
        retries=0,
        digest=system,
    )


def write_session(
    session: Path, at: float, trials: Sequence[Trial], lasted_s: float, primary_metric: Mapping[str, str]
) -> None:
    """The files that a session has beside its runs, at `root/suite/session`."""
    session.mkdir(parents=True)
    suite = trials[0].suite
    plan = Plan(
        suite=suite,
        suite_digest="suite",
        digest="plan",
        seed=1,
        repeats=max(trial.block for trial in trials),
        systems=tuple(dict.fromkeys(trial.system for trial in trials)),
        baseline=None,
        margin=0.02,
        interleaved=True,
        primary_metric=dict(primary_metric),
        expectations={},
        trials=tuple(trials),
    )
    header = Header(SCHEMA, "0", suite, "suite", "plan", at, "host", finished_at=at + lasted_s)
    (session / "session.json").write_text(to_json(header))
    (session / "plan.json").write_text(to_json(plan))


def write_attempt(session: Path, trial: Trial, at: float, lasted_s: float, log: str) -> None:
    """A run that finished, with the log of its rank."""
    attempt = session / trial.id / "attempt-1"
    (attempt / "logs").mkdir(parents=True)
    run = Run(
        schema=1,
        assay_version="0",
        id=f"{trial.suite}/{session.name}/{trial.id}",
        suite=trial.suite,
        suite_digest="suite",
        plan_digest="plan",
        session=session.name,
        interleaved=True,
        trial=trial,
        attempt=1,
        token="token",
        state=RunState.FINISHED,
        created_at=at,
        started_at=at,
        ended_at=at + lasted_s,
    )
    (attempt / "run.json").write_text(to_json(run))
    (attempt / "logs" / "rank-0.log").write_text(log)

"""A suite that ran each night: real run directories, with a step in its primary metric."""

from __future__ import annotations

import json
from pathlib import Path

from assay.records import Plan, Run, RunState, Shape, Trial, to_json
from assay.rundir.files import SCHEMA, Header

STARTED_AT, DAY_S = 1_772_360_000.0, 86_400.0
SIZE = 512


def write(
    root: Path, suite: str = "nightly", *, nights: int = 10, slower_from: int = 5, runs: int = 3
) -> None:
    """Run directories of so many sessions; from one of them on, the rate is a tenth lower."""
    for night in range(nights):
        at = STARTED_AT + DAY_S * night
        session = root / suite / f"2026-03-{night + 1:02d}T100000Z"
        session.mkdir(parents=True)
        trials = tuple(_trial(suite, block) for block in range(1, runs + 1))
        plan = Plan(
            suite=suite,
            suite_digest="suite",
            digest="plan",
            seed=1,
            repeats=runs,
            systems=("here",),
            baseline=None,
            margin=0.02,
            interleaved=True,
            primary_metric={},
            expectations={},
            trials=trials,
        )
        header = Header(SCHEMA, "0", suite, "suite", "plan", at, "host", finished_at=at + 60)
        (session / "session.json").write_text(to_json(header))
        (session / "plan.json").write_text(to_json(plan))
        for trial in trials:
            rate = 1e11 * (0.9 if night >= slower_from else 1.0) * (1 + (trial.block + night) % 4 / 1000)
            _attempt(session, trial, at + trial.block, rate)


def _trial(suite: str, block: int) -> Trial:
    return Trial(
        id=f"matmul-1x1-here-r{block:02d}",
        suite=suite,
        benchmark="matmul",
        workload="matmul",
        system="here",
        shape=Shape(1, 1),
        params={"sizes": [SIZE], "dtypes": ["fp32"]},
        varied={},
        block=block,
        seed=block,
        timeout_s=60.0,
        retries=0,
        digest="here",
    )


def _attempt(session: Path, trial: Trial, at: float, rate: float) -> None:
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
        ended_at=at + 9,
    )
    (attempt / "run.json").write_text(to_json(run))
    labels = {"unit": "FLOP/s", "labels": {"size": SIZE}}
    events: list[tuple[str, str, float | None, dict[str, object]]] = [
        ("INTERVAL_START", "payload", None, {}),
        ("POINT_IN_TIME", "flop_rate", rate, labels),
        ("POINT_IN_TIME", "flop_rate_slowest", rate * 0.99, labels),
        ("INTERVAL_END", "payload", None, {"status": "success"}),
    ]
    lines = [
        {
            "namespace": "assay",
            "time_ms": int(at * 1000) + seq,
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"rank": 0, "seq": seq, **metadata},
        }
        for seq, (kind, key, value, metadata) in enumerate(events)
    ]
    text = "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)
    (attempt / "logs" / "rank-0.log").write_text(text)

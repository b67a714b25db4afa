"""Sessions of a sweep over nodes, as run directories: one node is slow in the newest."""

from __future__ import annotations

import json
from pathlib import Path

from assay.cluster.sweep import NODES, systems
from assay.records import Plan, Run, RunState, Shape, Trial, to_json
from assay.rundir.files import SCHEMA, Header

STARTED_AT, DAY_S = 1_775_000_000.0, 86_400.0
NAMES = tuple(f"gpu-node-{number:02}.rack{number % 3}" for number in range(12))
SLOW = NAMES[4]
NEWEST = "2026-04-03T100000Z"
_PARAMS = {
    "argv": ["bench"],
    "metrics": {"rate": {"pattern": "rate: (?P<value>[0-9.e+]+)", "unit": "FLOP/s", "better": "higher"}},
}


def write(root: Path, *, sweeps: int = 3, repeats: int = 3) -> None:
    """Run directories of these sweeps, the last of which is `NEWEST`."""
    definition = {"launcher": "ssh", "hosts": list(NAMES), "directory": "/scratch", "python": "python3"}
    bound = systems(definition, [(name,) for name in NAMES])
    for sweep in range(sweeps):
        at = STARTED_AT + DAY_S * sweep
        session = root / NODES / f"2026-04-{4 - sweeps + sweep:02}T100000Z"
        session.mkdir(parents=True)
        trials = tuple(_trial(name, block) for block in range(1, repeats + 1) for name in bound)
        plan = Plan(
            suite=NODES,
            suite_digest="swept",
            digest="plan",
            seed=1,
            repeats=repeats,
            systems=tuple(bound),
            baseline=None,
            margin=0.02,
            interleaved=True,
            primary_metric={"matmul": "rate"},
            expectations={},
            trials=trials,
        )
        header = Header(SCHEMA, "0", NODES, "swept", "plan", at, "host", finished_at=at + 600)
        (session / "session.json").write_text(to_json(header))
        (session / "plan.json").write_text(to_json(plan))
        (session / "systems.yaml").write_text(json.dumps(bound))
        for number, trial in enumerate(trials):
            is_slow = trial.system == SLOW and sweep == sweeps - 1
            rate = 1e13 * (0.7 if is_slow else 1.0) * (1 + (number * 7 % 11) / 2000)
            _attempt(session, trial, at + 2 * number, rate)


def _trial(system: str, block: int) -> Trial:
    return Trial(
        id=f"matmul-1x1-{system}-r{block:02}",
        suite=NODES,
        benchmark="matmul",
        workload="command",
        system=system,
        shape=Shape(1, 1),
        params=_PARAMS,
        varied={},
        block=block,
        seed=block,
        timeout_s=60.0,
        retries=0,
        digest=system,
    )


def _attempt(session: Path, trial: Trial, at: float, rate: float) -> None:
    attempt = session / trial.id / "attempt-1"
    (attempt / "logs").mkdir(parents=True)
    run = Run(
        schema=1,
        assay_version="0",
        id=f"{NODES}/{session.name}/{trial.id}",
        suite=NODES,
        suite_digest="swept",
        plan_digest="plan",
        session=session.name,
        interleaved=True,
        trial=trial,
        attempt=1,
        token="token",
        state=RunState.FINISHED,
        created_at=at,
        started_at=at,
        ended_at=at + 2,
    )
    (attempt / "run.json").write_text(to_json(run))
    (attempt / "logs" / "rank-0.log").write_text(f"rate: {rate}\n")

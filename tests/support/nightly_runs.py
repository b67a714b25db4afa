"""A suite that ran each night: real run directories, with a step in its primary metric."""

from __future__ import annotations

import json
from pathlib import Path

from session_directories import a_trial, write_attempt, write_session

STARTED_AT, DAY_S = 1_772_360_000.0, 86_400.0
SIZE = 512
_PARAMS = {"sizes": [SIZE], "dtypes": ["fp32"]}


def write(
    root: Path, suite: str = "nightly", *, nights: int = 10, slower_from: int = 5, runs: int = 3
) -> None:
    """Run directories of so many sessions; from one of them on, the rate is a tenth lower."""
    for night in range(nights):
        at = STARTED_AT + DAY_S * night
        session = root / suite / f"2026-03-{night + 1:02d}T100000Z"
        trials = [
            a_trial(suite, "here", block, workload="matmul", params=_PARAMS) for block in range(1, runs + 1)
        ]
        write_session(session, at, trials, 60.0, {})
        for trial in trials:
            rate = 1e11 * (0.9 if night >= slower_from else 1.0) * (1 + (trial.block + night) % 4 / 1000)
            write_attempt(session, trial, at + trial.block, 9.0, _log(at + trial.block, rate))


def _log(at: float, rate: float) -> str:
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
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)

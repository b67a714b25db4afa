"""Sessions of a sweep over nodes, as run directories: one node is slow in the newest."""

from __future__ import annotations

import json
from pathlib import Path

from assay.node_sweep import NODES, systems
from session_directories import a_trial, write_attempt, write_session

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
        trials = [
            a_trial(NODES, name, block, workload="command", params=_PARAMS)
            for block in range(1, repeats + 1)
            for name in bound
        ]
        write_session(session, at, trials, 600.0, {"matmul": "rate"})
        (session / "systems.yaml").write_text(json.dumps(bound))
        for number, trial in enumerate(trials):
            is_slow = trial.system == SLOW and sweep == sweeps - 1
            rate = 1e13 * (0.7 if is_slow else 1.0) * (1 + (number * 7 % 11) / 2000)
            write_attempt(session, trial, at + 2 * number, 2.0, f"rate: {rate}\n")

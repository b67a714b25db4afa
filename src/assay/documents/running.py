"""`assay top --json`: what runs now."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.monitor.live import LiveRun, LiveRuns


def answer(live_runs: LiveRuns) -> dict[str, Any]:
    """Every running trial, and the sessions that can't be read."""
    return {
        "running": [document(live) for live in live_runs.running],
        "unreadable": [str(problem) for problem in live_runs.problems],
    }


def document(live: LiveRun) -> dict[str, Any]:
    """A running trial."""
    trial = live.run.trial
    return {
        "run": live.run.id,
        "suite": trial.suite,
        "session": live.session,
        "trial": trial.id,
        "system": trial.system,
        "running_s": live.running_s,
        "left_s": live.left_s,
        "left_is_most": live.is_most,
        "done": live.done,
        "trials": live.trials,
        "stopped": live.stopped,
        "nodes": [asdict(node) for node in live.nodes],
        "ranks": [asdict(rank) for rank in live.ranks],
    }

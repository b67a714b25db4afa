"""`assay sweep --json`, and what is slow in the sweep of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.analyse.points.groups import cause
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.analyse.sweeps.figures import Pairs
    from assay.analyse.sweeps.verdicts import SweepVerdicts
    from assay.questions.sweep import SweepResult


def document(system: str, sweep: SweepResult) -> dict[str, Any]:
    """The output of `--json`; a number that does not exist is null."""
    runs = sweep.runs
    return {
        "schema": "assay.sweep/1",
        "system": system,
        "sessions": [measured.session for measured in runs.measured],
        "complete": runs.complete,
        "left_out": [{"node": node, "why": why} for node, why in sorted(runs.left_out.items())],
        **_verdicts(sweep.verdicts),
        "keep_off": to_plain(sweep.keep_off),
        "failures": [{"trial": result.run.trial.id, "cause": cause(result)} for result in runs.failures],
    }


def judged_document(run: str, verdicts: SweepVerdicts) -> dict[str, Any]:
    """What is slow in the sweep of these runs, with the keys of `assay sweep --json`."""
    return {"schema": "assay.judged-sweep/1", "run": run, **_verdicts(verdicts)}


def _verdicts(verdicts: SweepVerdicts) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "benchmark": measurement.point.benchmark,
                "metric": measurement.point.metric,
                "unit": measurement.point.unit,
                "slow": measurement.slow,
                "judged": measurement.judged,
                "crowd": to_plain(measurement.crowd),
                "changes": to_plain(measurement.changes),
            }
            for measurement in verdicts.nodes
        ],
        "pairs": None if verdicts.pairs is None else _pairs_plain(verdicts.pairs),
        "rings": to_plain(verdicts.rings),
    }


def _pairs_plain(pairs: Pairs) -> dict[str, Any]:
    ratios = [{"nodes": [*pair], "ratio": ratio} for pair, ratio in pairs.ratios.items()]
    changes = to_plain(pairs.changes)
    return {
        "ratios": ratios,
        "groups": dict(pairs.groups),
        "blame": to_plain(pairs.blame),
        "changes": changes,
    }

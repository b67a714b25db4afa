"""`assay monitor fetch --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assay.questions.fetch_telemetry import FetchedRun


def document(runs: Sequence[FetchedRun]) -> dict[str, Any]:
    """Each run with what was fetched, what is missing, and whether the sampler agrees."""
    return {
        "runs": [
            {
                "run": run.run,
                "stored": not run.why_not,
                "why_not": run.why_not,
                "samples": {"node": run.samples[0], "gpu": run.samples[1]},
                "nodes": {"found": run.nodes[0], "all": run.nodes[1]},
                "gpus": run.gpus,
                "missing": dict(run.missing or {}),
                "left_out": list(run.left_out),
                "agreement": None
                if run.agreement is None
                else {
                    "compared": run.agreement.compared,
                    "differences": [asdict(difference) for difference in run.agreement.differences],
                },
            }
            for run in runs
        ]
    }

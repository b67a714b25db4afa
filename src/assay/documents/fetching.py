"""`assay monitor fetch --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assay.questions.fetch_telemetry import FetchedRun


def document(found: Sequence[FetchedRun]) -> dict[str, Any]:
    """Each run with what was fetched, what is missing, and whether the sampler agrees."""
    return {
        "runs": [
            {
                "run": one.run,
                "stored": not one.why_not,
                "why_not": one.why_not,
                "samples": {"node": one.samples[0], "gpu": one.samples[1]},
                "nodes": {"found": one.nodes[0], "all": one.nodes[1]},
                "gpus": one.gpus,
                "missing": dict(one.missing or {}),
                "left_out": list(one.left_out),
                "agreement": None
                if one.agreement is None
                else {
                    "compared": one.agreement.compared,
                    "differences": [asdict(each) for each in one.agreement.differences],
                },
            }
            for one in found
        ]
    }

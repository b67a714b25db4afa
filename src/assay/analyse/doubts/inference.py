"""Doubts about imported runs of MLPerf inference: what they were set to, what a figure means."""

from __future__ import annotations

from assay.analyse.doubts.case import Case
from assay.analyse.inference_rules import unmet_settings
from assay.records import Doubt, Scalar

WORKLOAD = "loadgen"
_SENT = "effective_target_qps"


def short_settings(case: Case) -> Doubt | None:
    """Runs that LoadGen calls VALID by settings that ask for less than the rules."""
    found = dict.fromkeys(
        unmet for stated in _stated(case) for unmet in unmet_settings(stated.get("scenario"), stated)
    )
    if not found:
        return None
    return Doubt(
        "short-settings",
        "; ".join(found),
        "Repeat them with the official settings (mlperf.conf) before calling them results of MLPerf",
    )


def rate_was_set(case: Case) -> Doubt | None:
    """Throughput in Server follows the rate that was sent: it only says that the system kept up."""
    if not all(side.group.point.metric == "throughput" for side in case.sides):
        return None
    rates = dict.fromkeys(
        stated[_SENT] for stated in _stated(case) if stated.get("scenario") == "Server" and _SENT in stated
    )
    if not rates:
        return None
    told = ", ".join(f"{rate}" for rate in rates)
    return Doubt(
        "rate-was-set",
        f"LoadGen sent {told} queries/s in Server and the system kept up",
        "Find the largest rate that each side keeps within its latency bound, and compare those",
    )


def _stated(case: Case) -> list[dict[str, Scalar]]:
    """Facts of every run of LoadGen in the case."""
    return [
        dict(sample.result.reading.facts)
        for side in case.sides
        for sample in side.group.samples
        if sample.result.run.trial.workload == WORKLOAD
    ]

"""Doubts about runs of inference: what they were set to, what a figure means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.analyse.doubts.case import Case
from assay.analyse.inference_rules import asked_accuracy, unmet_settings
from assay.records import Doubt, Scalar

LOADGENS = ("loadgen", "inference")  # workloads whose runs are LoadGen's: imported, and our own
# Workload → its scenario of Poisson arrivals, the fact that holds their rate, and who sends.
_ARRIVALS = {
    **dict.fromkeys(LOADGENS, ("Server", "effective_target_qps", "LoadGen")),
    "llm-serving": ("server", "rate", "the client"),
}
_FOLLOW_THE_RATE = ("throughput", "token_throughput", "inferred_token_throughput", "goodput")


def short_settings(case: Case) -> Doubt | None:
    """Runs that LoadGen calls VALID by settings that ask for less than the rules."""
    found = dict.fromkeys(
        unmet
        for workload in LOADGENS
        for params, stated in _runs(case, workload)
        for unmet in unmet_settings(
            stated.get("scenario"), stated, str(params.get("benchmark") or ""), str(params.get("round") or "")
        )
    )
    if not found:
        return None
    return Doubt(
        "short-settings",
        "; ".join(found),
        "Repeat them with the official settings (mlperf.conf) before calling them results of MLPerf",
    )


def below_asked_accuracy(case: Case) -> Doubt | None:
    """Runs of the rules' own model and data that answer less well than the closed division asks for."""
    found = []
    for side in case.sides:
        if side.group.point.metric != "accuracy":
            continue
        for sample in side.group.samples:
            facts = sample.result.reading.facts
            asked = asked_accuracy(facts) if sample.result.run.trial.workload == "inference" else None
            if asked is not None and sample.value < asked:
                found.append(f"{facts['model']} has {sample.value:.4f}, the rules ask for {asked:.4f}")
    if not found:
        return None
    return Doubt(
        "below-asked-accuracy",
        "; ".join(dict.fromkeys(found)),
        "Take the reference's weights and preprocessing, or a precision that keeps its accuracy",
    )


def rate_was_set(case: Case) -> Doubt | None:
    """Throughput at a rate of arrivals follows that rate: it only says that the system kept up."""
    if not all(side.group.point.metric in _FOLLOW_THE_RATE for side in case.sides):
        return None
    told: dict[str, None] = {}
    for workload, (scenario, rate, sender) in _ARRIVALS.items():
        set_to = [
            s for s in _stated(case, workload) if s.get("scenario") == scenario and not s.get("searched")
        ]
        rates = [s[rate] for s in set_to if rate in s]
        told |= dict.fromkeys(f"{sender} sent {value} queries/s" for value in rates)
    if not told:
        return None
    return Doubt(
        "rate-was-set",
        f"{', '.join(told)} and the system kept up",
        "Find the largest rate that each side keeps within its latency bound, and compare those",
    )


def _stated(case: Case, workload: str) -> list[dict[str, Scalar]]:
    """Facts of every run of the workload in the case."""
    return [facts for _, facts in _runs(case, workload)]


def _runs(case: Case, workload: str) -> list[tuple[Mapping[str, Any], dict[str, Scalar]]]:
    """Parameters and facts of every run of the workload in the case."""
    return [
        (sample.result.run.trial.params, dict(sample.result.reading.facts))
        for side in case.sides
        for sample in side.group.samples
        if sample.result.run.trial.workload == workload
    ]

"""Runs of LoadGen's Server at several rates on two systems, for tests of what a report makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.formats.mlperf_inference import LoadgenLogParams, metrics_of
from assay.records import Measurement, Metric, Reading, Result, Run, RunState
from stated_runs import result

BOUND_S = 0.015
PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
MOST = {"here": 650.0, "there": 450.0}  # queries/s that each system keeps within the bound


def served(blocks: int = 3) -> dict[str, list[Result]]:
    """Results by system: each rate in each block, INVALID where it is more than the system keeps."""
    return {
        system: [
            _run(system, rate, block) for block in range(1, blocks + 1) for rate in (200, 300, 400, 500, 600)
        ]
        for system in MOST
    }


def metrics(_run: Run) -> Mapping[str, Metric]:
    return {metric.name: metric for metric in metrics_of(LoadgenLogParams(scenario="Server"))}


def _run(system: str, rate: int, block: int) -> Result:
    p99 = 0.0028 / (1 - rate / (MOST[system] * 1.15)) * (1 + 0.01 * block)
    latencies = [
        Measurement("latency", p99 * share, "s", {"percentile": p}, "rank-0.log", line)
        for line, (p, share) in enumerate(zip(PERCENTILES, (0.4, 0.6, 0.75, 0.85, 1.0, 1.4), strict=True), 80)
    ]
    made = result(
        rate * 0.998 + 0.1 * block,
        system=system,
        block=block,
        benchmark="resnet",
        unit="samples/s",
        varied={"target_qps": float(rate)},
        params={"target_qps": float(rate)},
        more=latencies,
    )
    facts = {
        "scenario": "Server",
        "validity": "VALID" if rate <= MOST[system] else "INVALID",
        "effective_target_qps": rate,
        "effective_target_latency_ns": BOUND_S * 1e9,
    }
    if rate <= MOST[system]:
        return replace(made, reading=replace(made.reading, facts=facts))
    why = "LoadGen says INVALID: latency above its bound"
    failed = replace(made.run, state=RunState.FAILED, cause=why)
    return replace(made, run=failed, reading=Reading(facts=facts, problems=(why,)))

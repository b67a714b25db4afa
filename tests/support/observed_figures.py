"""Observations of one metric with given values."""

from __future__ import annotations

from assay.records import Doubt
from assay.stacks.stack import HardwareClass, Observation, Stack, StackMetric, StackWorkload

WORKLOAD = StackWorkload("matmul", "1x1", {})
METRIC = StackMetric("flop_rate", "FLOP/s", "higher")


def observed(
    name: str, session: int, values: list[float], *, interleaved: bool = True, lost: float = 0.0
) -> Observation:
    doubts = (Doubt("busy-neighbours", "others", "wait"),) if lost else ()
    return Observation(
        Stack({}, {"torch": name}), HardwareClass("CPU"), WORKLOAD, METRIC, f"s/{session}", float(session),
        primary=True, values=tuple(enumerate(values, 1)), interleaved=interleaved, lost_to_others=lost,
        doubts=doubts,
    )  # fmt: skip

"""What ranks the stacks of an exploration, and of a bisection."""

from __future__ import annotations

from assay import read
from assay.stacks.exploring.measuring import ranking_metrics
from observed_stacks import results

WORK = results(sessions=1)
INDICATORS = results(sessions=1, workload="indicators")


def test_indicators_next_to_a_workload_are_measured_and_do_not_rank() -> None:
    assert ranking_metrics([*INDICATORS, *WORK], read.metrics, {}) == {"matmul": "flop_rate"}


def test_indicators_rank_if_nothing_else_is_measured() -> None:
    assert ranking_metrics(INDICATORS, read.metrics, {}) == {"indicators": "step_time"}

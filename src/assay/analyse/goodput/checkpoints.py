"""How often to save a checkpoint: Young's and Daly's interval for a rate of failures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.analyse.goodput.failures import FailureRate


@dataclass(frozen=True)
class CheckpointInterval:
    """Time of work between checkpoints that loses least, and the share of the time that is then lost.

    low_s, high_s   the interval for the ends of the rate's interval; high_s None without a failure
    waste           share of the time for checkpoints and repeated work at Daly's interval and the mean rate;
                    None without one
    waste_low, waste_high  the same at the ends
    """

    cost_s: float
    young_s: float | None
    daly_s: float | None
    low_s: float
    high_s: float | None
    waste: float | None
    waste_low: float | None
    waste_high: float


def young_s(cost_s: float, mean_s: float) -> float:
    """Young's first-order interval, seconds: sqrt(2 δ M).

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
    """
    return math.sqrt(2 * cost_s * mean_s)


def daly_s(cost_s: float, mean_s: float) -> float:
    """Daly's higher-order interval of work, seconds; M if a checkpoint takes 2 M or more.

    Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.

    >>> round(daly_s(60, 3.09 * 3600) / 60)
    19
    """
    if cost_s >= 2 * mean_s:
        return mean_s
    root = math.sqrt(cost_s / (2 * mean_s))
    return young_s(cost_s, mean_s) * (1 + root / 3 + root * root / 9) - cost_s


def waste(cost_s: float, mean_s: float) -> float:
    """Share of the time for checkpoints and repeated work at Daly's interval: 1 - τ / (M (e^((τ+δ)/M) - 1)).

    Exact for failures at a constant rate: each interval succeeds with probability e^(-(τ+δ)/M). Young's
    sqrt(2 δ / M) is its first order, and too high where a checkpoint costs much: 75 instead of 57 % for
    checkpoints of 33 min and a failure every 2 h. Restarts are not in it.

    >>> round(waste(2000, 7200), 3), round(waste(60, 10800), 3)
    (0.573, 0.102)
    """
    work_s = daly_s(cost_s, mean_s)
    return 1 - work_s / (mean_s * math.expm1((work_s + cost_s) / mean_s))


def checkpoint_interval(rate: FailureRate, cost_s: float) -> CheckpointInterval:
    """The best interval for a rate of failures. Raises ValueError unless a checkpoint costs time."""
    if not cost_s > 0:
        raise ValueError(f"a checkpoint that costs {cost_s} s: expected a time above 0")
    mean, high = rate.mean_s, rate.high_s
    return CheckpointInterval(
        cost_s,
        None if mean is None else young_s(cost_s, mean),
        None if mean is None else daly_s(cost_s, mean),
        daly_s(cost_s, rate.low_s),
        None if high is None else daly_s(cost_s, high),
        None if mean is None else waste(cost_s, mean),
        None if high is None else waste(cost_s, high),
        waste(cost_s, rate.low_s),
    )

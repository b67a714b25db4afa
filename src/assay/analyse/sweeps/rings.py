"""Rings of nodes: whether all of them together are as fast as their slowest pair predicts.

In a ring each node sends to the next, so that its bus bandwidth is that of its slowest link, whatever its
size (nccl-tests, doc/PERFORMANCE.md). A ring that is slower than the slowest of its pairs shows what no pair
shows: something its links share, a switch or an uplink, can't carry all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from assay.analyse.statistics.intervals import welch
from assay.analyse.statistics.outliers import FALSE_ALARM
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.records import Better, Estimate

BORNE = 0.2  # loss of a healthy ring: each step waits for the slowest of nodes that send and receive at once

Pair = tuple[str, str]
Nodes = tuple[str, ...]


@dataclass(frozen=True)
class Ring:
    """Nodes that ran one all-reduce together, compared with their slowest measured pair.

    slowest  that pair; None if no two of them were measured
    ratio    the ring's speed over that pair's, below 1 is slower, with the interval that holds for all rings
             jointly; None if there is no pair, no bounds if the runs allow none
    slower   the whole interval is below 1 - `BORNE`
    reason   why there is no interval; "" if there is one
    """

    name: str
    nodes: Nodes
    slowest: Pair | None
    ratio: Estimate | None
    slower: bool
    reason: str


def slow_rings(
    rings: Mapping[Nodes, Sequence[float]],
    pairs: Mapping[Pair, Sequence[float]],
    better: Better,
    *,
    names: Mapping[Nodes, str],
    borne: float = BORNE,
) -> tuple[Ring, ...]:
    """Each ring compared with the slowest of its pairs: bus bandwidths, one per run, above 0, in one unit.

    borne  tolerated loss, as a share

    Welch's t on logarithms, one-sided, Bonferroni over the rings: if no ring lost more than is tolerated, any
    is reported in at most 5 % of sweeps; less often in practice, because the slowest pair of many looks
    slower than it is. For simulated rates, see docs/how-to/sweep.md. Raises ValueError for a value not above
    0.
    """
    confidence = 1 - 2 * FALSE_ALARM / max(len(rings), 1)
    return tuple(
        _ring(names[nodes], nodes, figures, pairs, better, borne, confidence)
        for nodes, figures in rings.items()
    )


def _ring(
    name: str,
    nodes: Nodes,
    figures: Sequence[float],
    pairs: Mapping[Pair, Sequence[float]],
    better: Better,
    borne: float,
    confidence: float,
) -> Ring:
    of_ring = frozenset(nodes)
    within = {
        pair: _speeds(v, better) for pair, v in pairs.items() if pair[0] in of_ring and pair[1] in of_ring
    }
    if not within:
        return Ring(name, nodes, None, None, False, "no two of its nodes were measured as a pair")
    slowest = min(within, key=lambda pair: median(within[pair]))
    of_all = _speeds(figures, better)
    interval = welch(within[slowest], of_all, confidence, hidden_by_rounding(pairs[slowest], figures))
    ratio = interval.estimate("", confidence)
    return Ring(name, nodes, slowest, ratio, ratio.high is not None and ratio.high < 1 - borne, interval.why)


def _speeds(figures: Sequence[float], better: Better) -> list[float]:
    if not figures or not all(0 < figure < math.inf for figure in figures):
        raise ValueError(f"the values are {list(figures)}; all must be above 0, and at least one is needed")
    return [math.log(figure) if better == "higher" else -math.log(figure) for figure in figures]

"""Which nodes of a sweep are slow: compared with nodes of their kind, or with their own baselines.

A node counts once, with the median of its runs: with three runs or more, one disturbed run is outvoted.
Nodes are compared only with nodes of similar hardware; if each has a stored baseline, the changes are
compared, so that a permanent difference is not a fault. Nodes that form two populations are reported as such,
and each is compared with its own. All measurements of a sweep (kinds, metrics) share one false-alarm rate: in
at most 5 % of sweeps over healthy nodes any of them is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from assay.analyse.statistics.intervals import welch
from assay.analyse.statistics.outliers import FALSE_ALARM, SMALLEST_ALARM, Decision, lower_population, too_low
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.records import DEFAULT_MARGIN, Better, Estimate

Values = Mapping[str, Sequence[float]]
"""Each node's values of one metric, one per run, above 0, in one unit."""

FEWEST_RUNS = 3  # per node; with fewer, one unlucky run determines the node's value
MOST_QUESTIONS = round(FALSE_ALARM / SMALLEST_ALARM / 2)  # two populations share a question's rate
LEAST_LOSS = DEFAULT_MARGIN  # share that healthy nodes may lack for ever: no node is named for less


@dataclass(frozen=True)
class NodeStanding:
    """One node among those of its kind.

    runs   of it; with a baseline, of the side that has fewer
    ratio  of its value to the kind's median (with a baseline: of its change to the median change), which is
           that of nodes that are not slow, and of the larger population if there are two; below 1 is slower,
           for times too
    """

    node: str
    runs: int
    ratio: float
    slow: bool


@dataclass(frozen=True)
class NodeGroup:
    """The smaller of two populations of nodes: something that its nodes share makes them slower or faster.

    ratio   of its median to that of the others
    slower  it lost at least `LEAST_LOSS`
    """

    nodes: tuple[str, ...]
    ratio: float
    slower: bool


@dataclass(frozen=True)
class Crowd:
    """The nodes of one kind in one measurement.

    standings    slowest first
    median       of the nodes' medians, in the metric's unit; with a baseline, of their changes
    named_from   loss, as a share, from which a node is named; None if none can be judged
    found_from   loss, as a share, of which 80 in 100 are named
    scatter      standard deviation between healthy nodes, as a share
    fastest      gain of the fastest over the median, as a share: one far too fast hides small losses
    reason       why none was judged; "" if they were
    warnings     what weakens the verdict, as text
    group        set if the nodes are two populations; of it, no node is named for what all of them lost
    """

    kind: str
    standings: tuple[NodeStanding, ...]
    median: float
    named_from: float | None
    found_from: float | None
    scatter: float
    fastest: float
    reason: str
    warnings: tuple[str, ...]
    group: NodeGroup | None = None

    @property
    def slow(self) -> tuple[str, ...]:
        """The nodes that are named, slowest first."""
        return tuple(standing.node for standing in self.standings if standing.slow)


def slow_nodes(
    values: Values,
    better: Better,
    *,
    kinds: Mapping[str, str] | None = None,
    before: Values | None = None,
    figures: int = 1,
) -> tuple[Crowd, ...]:
    """Each kind of node in one measurement, and which of them are slow.

    kinds    node → hardware; without, all are alike
    before   the same nodes' values in a stored baseline, same unit; nodes that it lacks are not judged
    figures  the number of measurements of this sweep, all of which share the false-alarm rate

    For simulated rates and power, see docs/explanation/statistics.md. Raises ValueError for a value not above
    0, a node without values or kind, a kind without any baseline, or more kinds times measurements than can
    share the rate.
    """
    groups = _by_kind(values, kinds)
    questions = figures * len(groups)
    if questions > MOST_QUESTIONS:
        raise ValueError(
            f"{questions} kinds times measurements; false-alarm rates are tabulated up to {MOST_QUESTIONS}"
        )
    return tuple(
        _crowd(kind, {node: values[node] for node in nodes}, better, before, FALSE_ALARM / questions)
        for kind, nodes in groups.items()
    )


def _by_kind(values: Values, kinds: Mapping[str, str] | None) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for node in values:
        if kinds is not None and node not in kinds:
            raise ValueError(f"{node} has no kind")
        groups.setdefault("" if kinds is None else kinds[node], []).append(node)
    return dict(sorted(groups.items()))


def _crowd(kind: str, values: Values, better: Better, before: Values | None, false_alarm: float) -> Crowd:
    speeds = {node: _speed(node, figures, better) for node, figures in values.items()}
    lacking = [node for node in speeds if before is not None and node not in before]
    if before is not None:
        speeds = {
            node: speed - _speed(node, before[node], better)
            for node, speed in speeds.items()
            if node in before
        }
    if not speeds:
        raise ValueError(f"no baseline for any of {', '.join(lacking)}")
    decision, group = _judged(speeds, false_alarm)
    standings = [
        NodeStanding(node, _runs(node, values, before), math.exp(deviation), index in decision.low)
        for index, (node, deviation) in enumerate(zip(speeds, decision.deviations, strict=True))
    ]
    return Crowd(
        kind=kind,
        standings=tuple(sorted(standings, key=lambda standing: (standing.ratio, standing.node))),
        median=math.exp(decision.centre if better == "higher" else -decision.centre),
        named_from=_loss(decision.limit),
        found_from=_loss(decision.found_in_80_percent),
        scatter=math.expm1(decision.scatter),
        fastest=math.expm1(decision.fastest),
        reason=decision.reason,
        warnings=tuple(_warnings(standings, lacking)),
        group=group,
    )


def _judged(speeds: Mapping[str, float], false_alarm: float) -> tuple[Decision, NodeGroup | None]:
    """The decision, relative to the larger population of nodes, and the smaller one if there are two."""
    nodes, least = [*speeds], -math.log1p(-LEAST_LOSS)
    lower = lower_population([*speeds.values()])
    if lower is None:
        return too_low([*speeds.values()], false_alarm, least), None
    upper = [index for index in range(len(nodes)) if index not in {*lower}]
    smaller, larger = (lower, upper) if len(lower) <= len(upper) else (upper, lower)
    low: list[int] = []
    for population in (smaller, larger):
        decision = too_low([speeds[nodes[index]] for index in population], false_alarm / 2, least)
        low += [population[index] for index in decision.low]
        if population is smaller:
            typical = decision.centre
    off = typical - decision.centre
    group = NodeGroup(tuple(sorted(nodes[index] for index in smaller)), math.exp(off), off <= -least)
    deviations = tuple(speed - decision.centre for speed in speeds.values())
    overall = replace(decision, deviations=deviations, low=tuple(low), fastest=max(deviations))
    return overall, group


def _speed(node: str, figures: Sequence[float], better: Better) -> float:
    """Logarithm of the median value, greater is faster."""
    if not figures or not all(0 < figure < math.inf for figure in figures):
        raise ValueError(
            f"{node}: the values are {list(figures)}; all must be above 0, and at least one is needed"
        )
    middle = math.log(median(figures))
    return middle if better == "higher" else -middle


def _runs(node: str, values: Values, before: Values | None) -> int:
    return len(values[node]) if before is None else min(len(values[node]), len(before[node]))


def _loss(deviation: float | None) -> float | None:
    return None if deviation is None else -math.expm1(-deviation)


def _warnings(standings: Sequence[NodeStanding], lacking: Sequence[str]) -> list[str]:
    warnings = []
    fewest = min(standing.runs for standing in standings)
    if fewest < FEWEST_RUNS:
        runs = "1 run" if fewest == 1 else f"{fewest} runs"
        warnings.append(f"a node has {runs}: one unlucky run can make it look slow; measure slow nodes again")
    if lacking:
        warnings.append(f"without a baseline, so not judged: {', '.join(lacking)}")
    return warnings


@dataclass(frozen=True)
class BaselineChange:
    """One node now compared with its own baseline.

    ratio   speed now over before, below 1 is slower, with the interval that holds for all nodes jointly;
            no bounds if the runs allow none
    slower  the whole interval is below the margin
    reason  why there is no interval; "" if there is one
    """

    node: str
    ratio: Estimate
    slower: bool
    reason: str


def slower_than_before(
    now: Values, before: Values, better: Better, margin: float
) -> tuple[BaselineChange, ...]:
    """Each node compared with itself: the fallback if there are too few nodes to compare with each other.

    margin  tolerated loss, as a share above 0. Runs share their session's conditions, which the runs of two
            sessions can't distinguish from a fault: it has to cover how far sessions of a healthy node
            differ.

    Welch's t on logarithms, one-sided, Bonferroni over the nodes: if no healthy node lost more than the
    margin, any is named in at most 5 %. Raises ValueError as `slow_nodes`, or for a node without a baseline.
    """
    if not 0 < margin < 1:
        raise ValueError(f"a margin of {margin:g} is not a share above 0")
    confidence = 1 - 2 * FALSE_ALARM / max(len(now), 1)
    return tuple(_change(node, now[node], before, better, margin, confidence) for node in sorted(now))


def _change(
    node: str, figures: Sequence[float], before: Values, better: Better, margin: float, confidence: float
) -> BaselineChange:
    if node not in before:
        raise ValueError(f"{node} has no baseline")
    old, new = ([_speed(node, [figure], better) for figure in side] for side in (before[node], figures))
    if not old or not new:
        raise ValueError(f"{node} has no figures")
    interval = welch(old, new, confidence, hidden_by_rounding(before[node], figures))
    ratio = interval.estimate("", confidence)
    return BaselineChange(node, ratio, ratio.high is not None and ratio.high < 1 - margin, interval.why)


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

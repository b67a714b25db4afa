"""What is slow in a matrix of pairs: a node, a link between two, or what a group of nodes has in common.

Nodes meet in rounds. The logarithm of a pair's speed is what both nodes add to it plus a residual
specific to the pair. A node is slow with its partners, a link between its two ends only, a group's switch or
uplink between all of its nodes and all others. The order is groups, nodes, links; what an identified one
explains is set aside before the next step. None is named if the pairs that it affects contradict that. All
steps together report anything falsely in at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from assay.analyse.statistics.outliers import FALSE_ALARM, FEWEST, Decision, too_low
from assay.analyse.sweeps.slow_parts import (
    FEWEST_PARTNERS,
    FEWEST_SURE,
    Blame,
    Groups,
    Pair,
    SlowPart,
    Speeds,
    agree,
    between_groups,
    explained,
    slow_groups,
    slow_together,
)
from assay.records import DEFAULT_MARGIN, Better
from assay.units import counted

_POLISHES = 10  # sweeps of medians; simulated ones settle within five

Partners = Mapping[str, Sequence[str]]
"""Node → those with which it was measured."""


def blame(
    figures: Mapping[Pair, Sequence[float]],
    better: Better,
    *,
    groups: Groups | None = None,
    margin: float = DEFAULT_MARGIN,
) -> Blame:
    """Whether nodes, links, or groups of nodes are slow.

    figures  pair of nodes → its values, one per run, above 0, in one unit; each pair once
    groups   node → what it shares with others: a rack, a leaf switch
    margin   loss, as a share, below which a group is not reported: two racks are never quite alike

    For simulated rates and power, see docs/explanation/statistics.md. Raises ValueError for a value not above
    0, a duplicate pair, a pair of one node with itself, or a node without a group.
    """
    speeds = _speeds(figures, better)
    if not speeds:
        return Blame(untold=("no pair was measured",))
    named: tuple[SlowPart, ...] = ()
    untold: list[str] = []
    false_alarm = FALSE_ALARM / (2 if groups is None else 3)
    if groups is not None:
        named, untold, speeds = slow_groups(speeds, groups, false_alarm, margin)
    blamed = _nodes_and_links(speeds, false_alarm, groups)
    if groups is not None:
        blamed = between_groups(blamed, speeds, groups)
    untold += _shared({slow.who[0] for slow in blamed.nodes}, groups)
    return replace(blamed, groups=(*named, *blamed.groups), untold=(*untold, *blamed.untold))


def _speeds(figures: Mapping[Pair, Sequence[float]], better: Better) -> Speeds:
    sign = 1 if better == "higher" else -1
    speeds: Speeds = {}
    for (a, b), values in figures.items():
        if a == b or (b, a) in figures:
            raise ValueError(f"{a} and {b} are not a pair, or are a duplicate")
        if not values or not all(0 < value < math.inf for value in values):
            raise ValueError(
                f"{a} and {b}: the values are {list(values)}; all must be above 0, and at least one is needed"
            )
        speeds[a, b] = sign * math.log(median(values))
    return speeds


def _shared(nodes: Collection[str], groups: Groups | None) -> list[str]:
    """Slow nodes that may have one cause: several of one group, or several where groups are unknown."""
    by_group: dict[str, list[str]] = {}
    for node in sorted(nodes):
        by_group.setdefault("" if groups is None else groups[node], []).append(node)
    return [
        f"{' and '.join(few)}: each of them is slow, or something that they share; `--by` with a label of "
        "what nodes share, or more rounds, can distinguish that"
        for few in by_group.values()
        if len(few) > 1
    ]


def _partners(speeds: Speeds) -> dict[str, list[str]]:
    partners: dict[str, list[str]] = {}
    for a, b in speeds:
        partners.setdefault(a, []).append(b)
        partners.setdefault(b, []).append(a)
    return partners


@dataclass(frozen=True)
class _NodeVerdict:
    """Nodes with enough partners, judged.

    lost     slow node → the logarithm that it lost
    refuted  the same of nodes that most of their pairs make look slow, and the others don't
    typical  nodes whose pairs are judged one by one, as if they were typical: those refuted, those with too
             few partners; all if nodes can't be judged
    """

    decision: Decision
    lost: Mapping[str, float]
    refuted: Mapping[str, float]
    typical: Collection[str]


def _nodes_and_links(speeds: Speeds, false_alarm: float, groups: Groups | None) -> Blame:
    centre = median(speeds.values())
    about = {pair: speed - centre for pair, speed in speeds.items()}
    partners = _partners(speeds)
    by_node = _judged_nodes(about, partners, false_alarm)
    together = slow_together(about, [*by_node.lost.values(), *by_node.refuted.values()], groups)
    nodes, blamed = _without_shared(about, by_node, together, false_alarm)
    if not together and blamed.links:  # a side too large for its nodes to stand out
        together = slow_together(about, [math.log(link.ratio) for link in blamed.links], groups)
        nodes, blamed = _without_shared(about, by_node, together, false_alarm)
    hidden = len(about) - len(_unexplained(about, [node.who[0] for node in nodes], together))
    return replace(
        blamed,
        together=together,
        nodes=(*nodes, *blamed.nodes),
        node_loss=_loss(by_node.decision),
        untold=(*_untold(by_node, partners, hidden=hidden), *blamed.untold),
    )


def _without_shared(
    about: Speeds, by_node: _NodeVerdict, together: Sequence[SlowPart], false_alarm: float
) -> tuple[tuple[SlowPart, ...], Blame]:
    """The slow nodes that two pairs show which `together` doesn't explain, and what is slow besides."""
    within = {node for part in together for node in part.who}
    shown = _partners(_unexplained(about, (), together))
    slow = {
        node: lost
        for node, lost in by_node.lost.items()
        if node not in within and len(shown.get(node, ())) >= FEWEST_SURE
    }
    clear = _unexplained(about, slow, together)
    blamed = _slow_links(clear, by_node.typical, false_alarm) if clear else Blame()
    return tuple(SlowPart((node,), math.exp(lost)) for node, lost in slow.items()), blamed


def _unexplained(about: Speeds, slow: Collection[str], together: Sequence[SlowPart]) -> Speeds:
    """The pairs that neither a slow node explains, nor what several nodes share."""
    apart = [{*part.who} for part in together]
    return {
        pair: speed
        for pair, speed in about.items()
        if not {*slow} & {*pair} and not any(len(nodes & {*pair}) == 1 for nodes in apart)
    }


def _untold(verdict: _NodeVerdict, partners: Partners, *, hidden: int) -> list[str]:
    few = sum(len(others) < FEWEST_PARTNERS for others in partners.values())
    untold = [f"nodes: {verdict.decision.reason}"] if verdict.decision.reason and not few else []
    if few:
        untold.append(
            f"{counted(few, 'node')} with fewer than {FEWEST_PARTNERS} partners: if all pairs of one are "
            f"slow, the cause may be the node or its links; {FEWEST_PARTNERS} rounds can distinguish them"
        )
    if hidden:
        untold.append(f"{hidden} links of slow nodes: they can't be faster than their nodes")
    return untold


def _judged_nodes(about: Speeds, partners: Partners, false_alarm: float) -> _NodeVerdict:
    typical = {node for node, others in partners.items() if len(others) < FEWEST_PARTNERS}
    judged = [node for node in partners if node not in typical] or [*partners]
    refuted: dict[str, float] = {}
    while True:
        effects, _ = polished(about, partners, typical)
        decision = too_low([effects[node] for node in judged], false_alarm)
        if decision.limit is None:
            return _NodeVerdict(decision, {}, {}, partners)
        low = {judged[index]: decision.deviations[index] for index in decision.low}
        wrong = {
            node: lost
            for node, lost in low.items()
            if not agree([_of(about, node, partner) for partner in partners[node]], lost)
        }
        if not wrong:
            return _NodeVerdict(decision, low, refuted, typical)
        refuted |= wrong
        typical |= wrong.keys()


def _slow_links(about: Speeds, typical: Collection[str], false_alarm: float) -> Blame:
    """What pairs identify by what is specific to each of them.

    Where the rounds leave too few pairs to separate links from nodes, pairs are judged as they are.
    """
    partners = _partners(about)
    _, residuals = polished(about, partners, typical)
    free = _free(residuals, len(partners.keys() - {*typical}))
    if len(free) < FEWEST:
        residuals, free = about, [*about]
    # what a polish leaves is not independent: far residuals are more frequent than those of nodes
    decision = too_low([residuals[pair] for pair in free], 0.7 * false_alarm)
    if decision.limit is None:
        return Blame(untold=(f"pairs: {decision.reason}",))
    blamed = explained(
        {pair: math.exp(residual) for pair, residual in residuals.items()},
        slower=[free[index] for index in decision.low],
        fine=[pair for pair, residual in residuals.items() if residual > -decision.limit / 2],
    )
    return replace(blamed, link_loss=_loss(decision))


def polished(
    about: Speeds, partners: Partners, typical: Collection[str] = ()
) -> tuple[dict[str, float], dict[Pair, float]]:
    """What each node adds to its pairs, and the residual of each pair.

    about    relative to the median pair
    typical  nodes that add nothing

    Medians throughout, so that one slow link of a node does not affect the node's estimate.
    Source: median polish (Tukey, Exploratory Data Analysis, 1977), for a symmetric matrix with gaps.
    """
    effects = dict.fromkeys(partners, 0.0)
    for _ in range(_POLISHES):
        for node in (node for node in partners if node not in typical):
            effects[node] = median(_of(about, node, other) - effects[other] for other in partners[node])
    return effects, {(a, b): speed - effects[a] - effects[b] for (a, b), speed in about.items()}


def _of(about: Speeds, node: str, partner: str) -> float:
    return about[node, partner] if (node, partner) in about else about[partner, node]


def _free(residuals: Mapping[Pair, float], fitted: int) -> list[Pair]:
    """The pairs without those of the smallest residuals, one for each node: the polish fitted them to 0."""
    return sorted(residuals, key=lambda pair: abs(residuals[pair]))[fitted:]


def _loss(decision: Decision) -> float | None:
    return None if decision.limit is None else -math.expm1(-decision.limit)

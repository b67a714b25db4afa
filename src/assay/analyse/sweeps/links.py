"""What is slow in a matrix of pairs: a node, a link between two, or what a group of nodes has in common.

Nodes meet in rounds. The logarithm of a pair's speed is what both nodes add to it plus a residual
specific to the pair. A node is slow with every partner, a link between its two ends only, a group's switch or
uplink between all of its nodes and all others. The order is groups, nodes, links; what an identified one
explains is set aside before the next step. All steps together report anything falsely in at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from assay.analyse.statistics.outliers import FALSE_ALARM, FEWEST, Decision, too_low
from assay.records import DEFAULT_MARGIN, Better

Pair = tuple[str, str]
Speeds = dict[Pair, float]
"""Logarithm of each pair's median value, greater is faster."""

FEWEST_PARTNERS = 3  # per node: with two pairs, one of them slow, either partner may be the cause
FEWEST_OF_GROUP = 4
FEWEST_GROUPS = 3  # two share every pair between them
_POLISHES = 10  # sweeps of medians; simulated ones settle within five


@dataclass(frozen=True)
class SlowPart:
    """What is slow, and how much it loses.

    who    one node, both ends of a link, or a group's name
    ratio  speed relative to comparable ones, below 1
    """

    who: tuple[str, ...]
    ratio: float


def called(who: Sequence[str]) -> str:
    """The name of a node, or of a pair by its two ends: `n1 – n2`."""
    return " – ".join(who)


@dataclass(frozen=True)
class Blame:
    """What is slow, each list slowest first.

    groups      slow towards all others; `untold` states whether inside, too
    nodes       slow with every partner
    links       slow between these two, neither of which is slow
    pairs       slow, with too few partners of either end to distinguish the two nodes and the link
    node_loss, link_loss
                loss, as a share, from which one is reported; None if none could be
    untold      what these rounds can't distinguish, as text
    """

    groups: tuple[SlowPart, ...] = ()
    nodes: tuple[SlowPart, ...] = ()
    links: tuple[SlowPart, ...] = ()
    pairs: tuple[SlowPart, ...] = ()
    node_loss: float | None = None
    link_loss: float | None = None
    untold: tuple[str, ...] = ()


def blame(
    figures: Mapping[Pair, Sequence[float]],
    better: Better,
    *,
    groups: Mapping[str, str] | None = None,
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
    partners = _partners(speeds)
    if min(map(len, partners.values()), default=0) < FEWEST_PARTNERS:
        return _pairs_alone(speeds, partners)
    named: list[SlowPart] = []
    untold: list[str] = []
    questions = 2
    if groups is not None:
        questions = 3
        named, untold = _slow_groups(speeds, groups, FALSE_ALARM / questions, margin)
        speeds = _without(speeds, named, groups)
    return _nodes_and_links(speeds, partners, FALSE_ALARM / questions, named, untold)


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


def _partners(speeds: Speeds) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for a, b in speeds:
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found


def _pairs_alone(speeds: Speeds, partners: Mapping[str, Sequence[str]]) -> Blame:
    """Too few partners to distinguish a node from a link: slow pairs, and what would distinguish them."""
    if not speeds:
        return Blame(untold=("no pair was measured",))
    found = too_low(list(speeds.values()))
    untold = [found.reason] if found.reason else []
    fewest = min(map(len, partners.values()))
    untold.append(
        f"a node has {fewest} partners: a slow pair may be due to either of its nodes or the link; "
        f"{FEWEST_PARTNERS} rounds can distinguish them"
    )
    return Blame(pairs=_named(found, list(speeds)), link_loss=_loss(found), untold=tuple(untold))


# Nodes and links -----------------------------------------------------------------------------------------


def _nodes_and_links(
    speeds: Speeds,
    partners: Mapping[str, Sequence[str]],
    false_alarm: float,
    groups: Sequence[SlowPart],
    untold: list[str],
) -> Blame:
    effects, residuals = polished(speeds, partners)
    by_node = too_low(list(effects.values()), false_alarm)
    nodes = _named(by_node, [(node,) for node in effects])
    blamed = {slow.who[0] for slow in nodes}
    clear = {pair: value for pair, value in residuals.items() if not blamed & {*pair}}
    untold += [f"nodes: {by_node.reason}"] if by_node.reason else []
    if blamed:
        hidden = len(residuals) - len(clear)
        untold.append(f"{hidden} links of slow nodes: they can't be faster than their nodes")
    if not clear:
        return Blame(tuple(groups), nodes, node_loss=_loss(by_node), untold=tuple(untold))
    free = _free(clear)
    if len(free) < FEWEST:
        untold.append(
            f"links: {len(clear)} pairs separate {len(free)} links from their nodes; at least {FEWEST} are "
            "needed: run more rounds"
        )
        return Blame(tuple(groups), nodes, node_loss=_loss(by_node), untold=tuple(untold))
    by_link = too_low(list(free.values()), false_alarm)
    untold += [f"links: {by_link.reason}"] if by_link.reason else []
    pairs = list(free)
    return Blame(
        groups=tuple(groups),
        nodes=nodes,
        links=tuple(SlowPart(pairs[at], math.exp(free[pairs[at]])) for at in by_link.low),
        node_loss=_loss(by_node),
        link_loss=_loss(by_link),
        untold=tuple(untold),
    )


def polished(
    speeds: Speeds, partners: Mapping[str, Sequence[str]]
) -> tuple[dict[str, float], dict[Pair, float]]:
    """What each node adds to its pairs, and the residual of each pair, relative to the median pair.

    Medians throughout, so that one slow link of a node does not affect the node's estimate.
    Source: median polish (Tukey, Exploratory Data Analysis, 1977), for a symmetric matrix with gaps.
    """
    centre = median(speeds.values())
    about = {pair: speed - centre for pair, speed in speeds.items()}
    about |= {(b, a): speed for (a, b), speed in about.items()}
    effects = dict.fromkeys(partners, 0.0)
    for _ in range(_POLISHES):
        for node, others in partners.items():
            effects[node] = median(about[node, other] - effects[other] for other in others)
    return effects, {(a, b): about[a, b] - effects[a] - effects[b] for a, b in speeds}


def _free(residuals: Mapping[Pair, float]) -> dict[Pair, float]:
    """The residuals without the smallest, one for each node: the polish has fitted those to about 0."""
    nodes = {node for pair in residuals for node in pair}
    by_size = sorted(residuals, key=lambda pair: abs(residuals[pair]))
    return {pair: residuals[pair] for pair in by_size[len(nodes) :]}


# Groups --------------------------------------------------------------------------------------------------


def _slow_groups(
    speeds: Speeds, groups: Mapping[str, str], false_alarm: float, margin: float
) -> tuple[list[SlowPart], list[str]]:
    """Groups whose nodes are slow towards all others, by rank: no tail can mislead it.

    Source: Wilcoxon, Biometrics Bulletin 1 (1945) 80-83; normal approximation, which errs on the safe side
    this far out; Bonferroni over the groups.
    """
    outward = _outward(speeds, groups)
    members: dict[str, list[float]] = {}
    for node, speed in outward.items():
        members.setdefault(groups[node], []).append(speed)
    if len(members) < FEWEST_GROUPS:
        return [], [
            f"groups: {len(members)} have pairs with others; {FEWEST_GROUPS} are needed to identify a slow "
            "one"
        ]
    named, untold = [], []
    for name, inside in sorted(members.items()):
        outside = [speed for group, found in members.items() if group != name for speed in found]
        if len(inside) < FEWEST_OF_GROUP:
            untold.append(
                f"group {name}: {len(inside)} nodes; at least {FEWEST_OF_GROUP} are needed to judge it"
            )
            continue
        lost = median(inside) - median(outside)
        if _rank_p(inside, outside) < false_alarm / len(members) and -math.expm1(lost) > margin:
            named.append(SlowPart((name,), math.exp(lost)))
            untold.append(_within(name, lost, speeds, groups))
    return sorted(named, key=lambda slow: slow.ratio), untold


def _outward(speeds: Speeds, groups: Mapping[str, str]) -> dict[str, float]:
    """Each node's median speed with nodes of other groups."""
    found: dict[str, list[float]] = {}
    for pair, speed in speeds.items():
        for node in pair:
            if node not in groups:
                raise ValueError(f"{node} has no group")
        if groups[pair[0]] != groups[pair[1]]:
            for node in pair:
                found.setdefault(node, []).append(speed)
    return {node: median(values) for node, values in found.items()}


def _rank_p(inside: Sequence[float], outside: Sequence[float]) -> float:
    """Probability of this many lost inside–outside comparisons if both are alike; one-sided."""
    from scipy.special import ndtr

    m, n = len(inside), len(outside)
    won = sum((a > b) + 0.5 * (a == b) for a in inside for b in outside)
    return float(ndtr((won + 0.5 - m * n / 2) / math.sqrt(m * n * (m + n + 1) / 12)))


def _within(name: str, lost: float, speeds: Speeds, groups: Mapping[str, str]) -> str:
    """Whether a slow group is slow inside, too: then it is its switch or all its nodes, else its uplink."""
    inside = [speed for (a, b), speed in speeds.items() if groups[a] == groups[b] == name]
    others = [speed for (a, b), speed in speeds.items() if groups[a] == groups[b] != name]
    if min(len(inside), len(others)) < FEWEST_PARTNERS:
        return (
            f"group {name}: its uplink, its switch or all its nodes; {len(inside)} pairs within were measured"
        )
    if median(inside) - median(others) > lost / 2:
        return f"group {name}: not slow within, so the cause is somewhere on its way to the others"
    return f"group {name}: slow within, too; its switch or all its nodes"


def _without(speeds: Speeds, slow: Sequence[SlowPart], groups: Mapping[str, str]) -> Speeds:
    """The pairs as they would be if those groups lost nothing."""
    lost = {one.who[0]: math.log(one.ratio) for one in slow}
    return {
        (a, b): speed - (0 if groups[a] == groups[b] else lost.get(groups[a], 0) + lost.get(groups[b], 0))
        for (a, b), speed in speeds.items()
    }


def _named(found: Decision, names: Sequence[tuple[str, ...]]) -> tuple[SlowPart, ...]:
    return tuple(SlowPart(names[at], math.exp(found.deviations[at])) for at in found.low)


def _loss(found: Decision) -> float | None:
    return None if found.limit is None else -math.expm1(-found.limit)

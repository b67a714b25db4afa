"""Which groups of nodes are slow towards the others: a rack's uplink, its switch, or all of its nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from assay.analyse.sweeps.slow_parts import FEWEST_PARTNERS, Blame, Pair, SlowPart, Speeds, agree

FEWEST_OF_GROUP = 4
FEWEST_GROUPS = 3  # two share every pair between them

Groups = Mapping[str, str]
"""Node → what it shares with others: a rack, a leaf switch."""


def slow_groups(
    speeds: Speeds, groups: Groups, false_alarm: float, margin: float
) -> tuple[tuple[SlowPart, ...], list[str], Speeds]:
    """Groups that are slow towards all others, what can't be known, and the pairs as if none had lost.

    A group's nodes towards the others are compared, by rank, with nodes of other groups towards each other:
    no tail can mislead that, and what the group lost is on one side only. Its nodes and the other groups must
    agree. The slowest is set aside before the next is looked for.

    margin  loss, as a share, below which a group is not named: two racks are never quite alike

    Source: Wilcoxon, Biometrics Bulletin 1 (1945) 80-83; Bonferroni over the groups. Raises ValueError for a
    node without a group.
    """
    for node in (node for pair in speeds for node in pair):
        if node not in groups:
            raise ValueError(f"{node} has no group")
    names = sorted({groups[node] for pair in _across(speeds, groups) for node in pair})
    if len(names) < FEWEST_GROUPS:
        few = (
            f"groups: {len(names)} have pairs with others; {FEWEST_GROUPS} are needed to identify a slow one"
        )
        return (), [few], speeds
    named: list[SlowPart] = []
    untold: list[str] = []
    while len(named) < len(names) - FEWEST_GROUPS + 1:
        left = [name for name in names if name not in {slow.who[0] for slow in named}]
        losses = {name: _lost(name, speeds, groups, false_alarm / len(names)) for name in left}
        worst = min(left, key=losses.__getitem__)
        if -math.expm1(losses[worst]) <= margin:
            break
        named.append(SlowPart((worst,), math.exp(losses[worst])))
        cause, within = _within(worst, losses[worst], speeds, groups)
        untold.append(cause)
        speeds = _without(worst, losses[worst], speeds, groups, within=within)
    untold += _too_few(names, speeds, groups)
    return tuple(sorted(named, key=lambda slow: slow.ratio)), untold, speeds


def _across(speeds: Speeds, groups: Groups) -> Speeds:
    return {(a, b): speed for (a, b), speed in speeds.items() if groups[a] != groups[b]}


def _by_node(speeds: Speeds) -> dict[str, list[float]]:
    by_node: dict[str, list[float]] = {}
    for pair, speed in speeds.items():
        for node in pair:
            by_node.setdefault(node, []).append(speed)
    return by_node


def _lost(name: str, speeds: Speeds, groups: Groups, false_alarm: float) -> float:
    """The logarithm that a group lost towards all others; 0 if it did not for certain."""
    across = _across(speeds, groups)
    outward = {pair: speed for pair, speed in across.items() if name in (groups[pair[0]], groups[pair[1]])}
    others = _by_node({pair: speed for pair, speed in across.items() if pair not in outward})
    members = {node: median(own) for node, own in _by_node(outward).items() if groups[node] == name}
    if len(members) < FEWEST_OF_GROUP or not others:
        return 0.0
    outside = [median(own) for own in others.values()]
    typical = median(outside)
    lost = median(members.values()) - typical
    towards: dict[str, list[float]] = {}
    for (a, b), speed in outward.items():
        towards.setdefault(groups[b] if groups[a] == name else groups[a], []).append(speed - typical)
    agreed = agree([speed - typical for speed in members.values()], lost) and agree(
        [median(own) for own in towards.values()], lost
    )
    return lost if lost < 0 and agreed and _rank_p([*members.values()], outside) < false_alarm else 0.0


def _rank_p(inside: Sequence[float], outside: Sequence[float]) -> float:
    """Probability of this many lost inside–outside comparisons if both are alike; one-sided."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(inside, outside, alternative="less").pvalue)


def _within(name: str, lost: float, speeds: Speeds, groups: Groups) -> tuple[str, bool]:
    """Whether a slow group is slow inside, too: then it is its switch or all its nodes, else its uplink."""
    inside = [speed for (a, b), speed in speeds.items() if groups[a] == groups[b] == name]
    others = [speed for (a, b), speed in speeds.items() if groups[a] == groups[b] != name]
    if min(len(inside), len(others)) < FEWEST_PARTNERS:
        causes = f"its uplink, its switch or all its nodes; {len(inside)} pairs within were measured"
        return f"group {name}: {causes}", False
    if median(inside) - median(others) > lost / 2:
        return f"group {name}: not slow within, so the cause is somewhere on its way to the others", False
    return f"group {name}: slow within, too; its switch or all its nodes", True


def _without(name: str, lost: float, speeds: Speeds, groups: Groups, *, within: bool) -> Speeds:
    """The pairs as they would be if that group lost nothing."""
    hit = {True: (1, 2), False: (1,)}[within]  # nodes of a pair in the group
    return {
        pair: speed - lost * (sum(groups[node] == name for node in pair) in hit)
        for pair, speed in speeds.items()
    }


def _too_few(names: Sequence[str], speeds: Speeds, groups: Groups) -> list[str]:
    """The groups of which too few nodes have pairs with others."""
    outward = _by_node(_across(speeds, groups))
    counts = {name: sum(groups[node] == name for node in outward) for name in names}
    return [
        f"group {name}: {count} nodes; at least {FEWEST_OF_GROUP} are needed to judge it"
        for name, count in counts.items()
        if count < FEWEST_OF_GROUP
    ]


def between_groups(blame: Blame, speeds: Speeds, groups: Groups) -> Blame:
    """The same with one cause in place of the links between two groups, where they are slow throughout."""
    slow = {part.who: part for part in (*blame.links, *blame.pairs)}
    met: dict[tuple[str, ...], list[Pair]] = {}
    for a, b in _across(speeds, groups):
        met.setdefault(tuple(sorted((groups[a], groups[b]))), []).append((a, b))
    named = []
    for who, pairs in met.items():
        lost = [math.log(slow[pair].ratio) if pair in slow else 0.0 for pair in pairs]
        if len(pairs) >= FEWEST_PARTNERS and agree(lost, median(lost)) and median(lost) < 0:
            named.append(SlowPart(who, math.exp(median(lost))))
            slow = {pair: part for pair, part in slow.items() if pair not in pairs}
    return replace(
        blame,
        groups=tuple(sorted((*blame.groups, *named), key=lambda part: part.ratio)),
        links=tuple(part for part in blame.links if part.who in slow),
        pairs=tuple(part for part in blame.pairs if part.who in slow),
    )

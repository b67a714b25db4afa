"""What explains slow pairs with the fewest causes: a node, what several nodes share, a link, or either."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from statistics import median

from assay.analyse.sweeps.groups import FEWEST_OF_GROUP, Groups
from assay.analyse.sweeps.slow_parts import FEWEST_PARTNERS, Blame, Pair, SlowPart, Speeds

FEWEST_SURE = 2  # pairs of a node: with one, the link may be the cause and the others unlucky


def explained(ratios: Mapping[Pair, float], slower: Collection[Pair], fine: Collection[Pair]) -> Blame:
    """The nodes, links and pairs that are slow.

    ratios  each pair's speed relative to a healthy one
    slower  pairs that are slow for certain
    fine    pairs that are fast enough to show that neither of their nodes is slow

    A node is slow if it has at least three pairs, none of them fine, two of them slow for certain; the one
    that lost most comes first, and what it explains is set aside. A link is slow if both its ends have a fine
    pair. What remains may be either.
    """
    nodes, left = _nodes(ratios, set(slower), set(fine))
    clear = {node for pair in fine for node in pair}
    links: list[SlowPart] = []
    pairs: list[SlowPart] = []
    for pair in sorted(left, key=ratios.__getitem__):
        unclear = tuple(node for node in pair if node not in clear)
        (pairs if unclear else links).append(SlowPart(pair, ratios[pair], unclear))
    return Blame(nodes=tuple(nodes), links=tuple(links), pairs=tuple(pairs))


def _nodes(
    ratios: Mapping[Pair, float], slower: set[Pair], fine: set[Pair]
) -> tuple[list[SlowPart], set[Pair]]:
    """Nodes that explain all of their pairs, and the slower pairs that none explains."""
    named: list[SlowPart] = []
    left = dict(ratios)
    while True:
        pairs: dict[str, list[Pair]] = {}
        for pair in left:
            for node in pair:
                pairs.setdefault(node, []).append(pair)
        slow = {
            node: median(ratios[pair] for pair in own)
            for node, own in pairs.items()
            if len(own) >= FEWEST_PARTNERS and not fine & {*own} and len(slower & {*own}) >= FEWEST_SURE
        }
        if not slow:
            return named, slower & left.keys()
        worst = min(slow, key=slow.__getitem__)
        named.append(SlowPart((worst,), slow[worst]))
        left = {pair: ratio for pair, ratio in left.items() if worst not in pair}


def slow_together(about: Speeds, lost: Collection[float], groups: Groups | None) -> tuple[SlowPart, ...]:
    """Nodes that are slow with all others but not with each other: one cause that they share, or may share.

    about   speed of each pair relative to comparable ones, as a logarithm
    lost    logarithms that slow nodes or links lost: a pair is fast if it lost less than half of the least
    groups  node → what it is known to share; None if unknown

    Fast pairs connect nodes to sets. Beginning with the largest, a set that has a slow pair with the others
    is on a slow side, else it belongs to the others. A fast pair within shows one cause. Sets that lost alike
    and of which no pair was measured may have the same cause, unless they are of different groups. They are
    one side then, because one cause is simpler than several, if it has a fast pair or at least
    `FEWEST_OF_GROUP` nodes. Its nodes without a fast pair are its `one_of`.
    """
    if not lost:
        return ()
    others: set[str] = set()
    sides: list[tuple[set[str], float]] = []
    lone: set[str] = set()
    for nodes in _connected(about, max(lost) / 2):
        towards = [speed for pair, speed in about.items() if nodes & {*pair} and others & {*pair}]
        if not towards:
            others |= nodes
            continue
        if sum(len(nodes & {*pair}) == 1 for pair in about) >= FEWEST_PARTNERS:
            sides = _joined(sides, nodes, median(towards), about, groups)
        lone |= nodes if len(nodes) == 1 else set()
    if sum(len(nodes) for nodes, _ in sides) >= len(others):
        return ()  # of two halves, either may be the slow one
    return tuple(
        SlowPart(tuple(sorted(nodes)), math.exp(speed), tuple(sorted(nodes & lone)))
        for nodes, speed in sorted(sides, key=lambda side: side[1])
        if nodes - lone or len(nodes) >= FEWEST_OF_GROUP
    )


def _connected(about: Speeds, limit: float) -> list[set[str]]:
    """Sets of nodes that pairs faster than the limit connect, the largest first."""
    connected = {node: {node} for pair in about for node in pair}
    for (a, b), speed in about.items():
        if speed > limit and connected[a] is not connected[b]:
            connected[a] |= connected[b]
            connected.update(dict.fromkeys(connected[b], connected[a]))
    sets = {id(nodes): nodes for nodes in connected.values()}
    return sorted(sets.values(), key=len, reverse=True)


def _joined(
    sides: list[tuple[set[str], float]], nodes: set[str], speed: float, about: Speeds, groups: Groups | None
) -> list[tuple[set[str], float]]:
    """The sides with these nodes, in the first one that may have lost as much by the same cause."""
    for index, (side, typical) in enumerate(sides):
        met = any({a, b} & side and {a, b} & nodes for a, b in about)
        alike = max(speed, typical) < min(speed, typical) / 2
        if alike and not met and (groups is None or len({groups[node] for node in side | nodes}) == 1):
            return [*sides[:index], (side | nodes, typical), *sides[index + 1 :]]
    return [*sides, (nodes, speed)]

"""What explains slow pairs with the fewest causes: a node, what several nodes share, a link, or either."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from statistics import median

from assay.analyse.sweeps.slow_parts import FEWEST_PARTNERS, Blame, Pair, SlowPart, Speeds, agree

_FEWEST_SURE = 2  # pairs of a node: with one, the link may be the cause and the others unlucky


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
            if len(own) >= FEWEST_PARTNERS and not fine & {*own} and len(slower & {*own}) >= _FEWEST_SURE
        }
        if not slow:
            return named, slower & left.keys()
        worst = min(slow, key=slow.__getitem__)
        named.append(SlowPart((worst,), slow[worst]))
        left = {pair: ratio for pair, ratio in left.items() if worst not in pair}


def slow_together(about: Speeds, lost: Mapping[str, float]) -> tuple[SlowPart, ...]:
    """Nodes that are fast with each other and slow with all others, which has one cause that they share.

    about  speed of each pair relative to comparable ones, as a logarithm
    lost   node that most of its pairs make look slow, and others don't → the logarithm that it lost
    """
    left, named = set(lost), []
    while left:
        nodes = _reached(left.pop(), about, lost)
        left -= nodes
        typical = median(lost[node] for node in nodes)
        leaving = [speed for pair, speed in about.items() if len(nodes & {*pair}) == 1]
        if len(nodes) > 1 and len(leaving) >= FEWEST_PARTNERS and agree(leaving, typical):
            named.append(SlowPart(tuple(sorted(nodes)), math.exp(typical)))
    return tuple(sorted(named, key=lambda part: (part.ratio, part.who)))


def _reached(node: str, about: Speeds, lost: Mapping[str, float]) -> set[str]:
    """The node, and those of `lost` that fast pairs connect with it."""
    fast = [
        {a, b}
        for (a, b), speed in about.items()
        if a in lost and b in lost and speed > max(lost[a], lost[b]) / 2
    ]
    reached = {node}
    while joined := [ends for ends in fast if len(ends & reached) == 1]:
        reached = reached.union(*joined)
    return reached

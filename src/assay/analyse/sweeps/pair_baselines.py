"""Pairs compared with their baselines: what is slow if there are too few nodes to compare with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from assay.analyse.sweeps.links import FEWEST_PARTNERS, Blame, Pair, SlowPart, called
from assay.analyse.sweeps.nodes import BaselineChange, slower_than_before
from assay.records import Better

_FEWEST_SURE = 2  # pairs of a node: with one, the link may be the cause and the others unlucky

Values = Mapping[Pair, Sequence[float]]


def pairs_before(
    now: Values, before: Values, better: Better, margin: float
) -> tuple[tuple[BaselineChange, ...], Blame]:
    """Each pair's change, named as `links.called` does, and what the slower ones identify.

    A node is slow if all of its pairs, at least three, lost more than the margin, two of them with
    certainty; the one that lost most comes first, and what it explains is set aside. A link is slow if both
    its ends have a pair that lost less. What remains may be either.

    margin  tolerated loss, as a share above 0. If no healthy pair lost more, anything is reported in at
            most 5 %. Raises ValueError as `slower_than_before`
    """
    names = {called(pair): pair for pair in now}
    values = {name: now[pair] for name, pair in names.items()}
    old = {name: before[pair] for name, pair in names.items()}
    changes = slower_than_before(values, old, better, margin)
    ratios = {names[change.node]: change.ratio.value for change in changes}
    slower = {names[change.node] for change in changes if change.slower}
    fine = {pair for pair, ratio in ratios.items() if ratio >= 1 - margin}
    nodes, left = _nodes(ratios, slower, fine)
    clear = {node for pair in fine for node in pair}
    told = {pair: clear >= {*pair} for pair in sorted(left, key=ratios.__getitem__)}
    return changes, Blame(
        nodes=tuple(nodes),
        links=tuple(SlowPart(pair, ratios[pair]) for pair, is_link in told.items() if is_link),
        pairs=tuple(SlowPart(pair, ratios[pair]) for pair, is_link in told.items() if not is_link),
        untold=()
        if all(told.values())
        else ("a slow pair: the cause is either of its nodes or the link between them",),
    )


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

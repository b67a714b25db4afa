"""What can be slow in a matrix of pairs, and the fewest causes that explain slow pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

Pair = tuple[str, str]
Speeds = dict[Pair, float]
"""Logarithm of each pair's median value, greater is faster."""

FEWEST_PARTNERS = 3  # of a node that is named: with two, both slow, two slow links are as likely
_CONTRADICTING = 0.1  # share of what a cause affects that may be fast nevertheless, as noise can make it


@dataclass(frozen=True)
class SlowPart:
    """What is slow, and how much it loses.

    who     one node, both ends of a link, a group's name, two groups' names, or nodes that share something
    ratio   speed relative to comparable ones, below 1
    one_of  the ends of a pair of which either may be slow, or else the link between them; of nodes that share
            something, those that may be slow by themselves instead; () elsewhere
    """

    who: tuple[str, ...]
    ratio: float
    one_of: tuple[str, ...] = ()


def called(who: Sequence[str]) -> str:
    """The name of a node, or of a pair by its two ends: `n1 – n2`."""
    return " – ".join(who)


@dataclass(frozen=True)
class Blame:
    """What is slow, each list slowest first.

    groups      slow towards all others, or two towards each other; `untold` states whether inside, too
    together    nodes that are slow with all others but not with each other: what they share may be slow
    nodes       slow with their partners, all or nearly all
    links       slow between these two, both of which are fast with another partner
    pairs       slow, and an end of each has no other partner with which it is fast
    node_loss, link_loss
                loss, as a share, from which one is reported; None if none could be
    untold      what these rounds can't distinguish, as text
    """

    groups: tuple[SlowPart, ...] = ()
    together: tuple[SlowPart, ...] = ()
    nodes: tuple[SlowPart, ...] = ()
    links: tuple[SlowPart, ...] = ()
    pairs: tuple[SlowPart, ...] = ()
    node_loss: float | None = None
    link_loss: float | None = None
    untold: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[SlowPart, ...]:
        """Everything that is slow."""
        return (*self.groups, *self.together, *self.nodes, *self.links, *self.pairs)

    def affected(self, pairs: Iterable[Pair], groups: Mapping[str, str]) -> set[Pair]:
        """The pairs that something slow is part of.

        groups  node → what it shares with others; {} if unknown
        """
        nodes = {part.who[0] for part in self.nodes}
        links = {part.who for part in (*self.links, *self.pairs)}
        sides = [{*part.who} for part in self.together]
        slow_pairs = set()
        for pair in pairs:
            names = {groups.get(node, "") for node in pair}
            across = len(names) == 2 and any({*part.who} <= names for part in self.groups)
            apart = any(len(side & {*pair}) == 1 for side in sides)
            if across or apart or pair in links or nodes & {*pair}:
                slow_pairs.add(pair)
        return slow_pairs


def agree(speeds: Collection[float], lost: float) -> bool:
    """Whether what a cause affects lost what the cause lost, rather than nothing: at most one in ten did not.

    speeds  relative to comparable ones, as logarithms; lost  the logarithm that the cause lost, below 0
    """
    return sum(speed > lost / 2 for speed in speeds) <= _CONTRADICTING * len(speeds)


def slow_with(ratios: Mapping[Pair, float], node: str, ratio: float) -> tuple[int, int]:
    """With how many partners a node is slow, and how many it has.

    ratios  each pair's speed relative to comparable ones; ratio  that of a cause: a pair is slow with less
            than its square root, which is nearer to the ratio than to 1
    """
    own = [value for pair, value in ratios.items() if node in pair]
    return sum(value < math.sqrt(ratio) for value in own), len(own)


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

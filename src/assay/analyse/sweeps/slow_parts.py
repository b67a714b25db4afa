"""What can be slow in a matrix of pairs, and when pairs agree with that."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

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

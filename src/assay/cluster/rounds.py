"""Which nodes of a cluster are measured together in a sweep: each alone, pairs in rounds, then rings. Pure.

In a round each node has at most one partner, so that all pairs of a round can run at once without sharing
a node; over all rounds of a tournament each two nodes meet once. A few rounds already tell a bad node from
a bad pair: it is slow with every partner.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

Group = tuple[str, ...]
"""Nodes that run one job together."""

FEWEST_OF_RING = 3


def alone(nodes: Sequence[str]) -> list[Group]:
    """Each node by itself.

    >>> alone(["a", "b"])
    [('a',), ('b',)]
    """
    return [(node,) for node in _distinct(nodes)]


def pairs(nodes: Sequence[str], rounds: int | None = None, *, seed: int = 0) -> Iterator[list[Group]]:
    """So many rounds of pairs, one after the other; all that there are where `rounds` is None.

    Of an odd number of nodes one rests in each round, another in each. No two nodes meet twice. Which
    nodes meet in the first rounds is shuffled by the seed, so that neighbours by name, which often share
    a rack and a switch, are not preferred.

    Source: the circle method for round-robin tournaments (Kirkman 1847): one seat stays, the others move on.
    Raises ValueError for more rounds than there are, or a node named twice.

    >>> [sorted(map(sorted, one)) for one in pairs(["a", "b", "c", "d"])]
    [[['a', 'b'], ['c', 'd']], [['a', 'd'], ['b', 'c']], [['a', 'c'], ['b', 'd']]]
    """
    seats: list[str | None] = [*_distinct(nodes)]
    random.Random(seed).shuffle(seats)  # noqa: S311  (an order, no secret)
    if len(seats) % 2:
        seats.append(None)
    most = most_rounds(len(nodes))
    if rounds is None:
        rounds = most
    if rounds > most:
        raise ValueError(f"{len(nodes)} nodes meet in at most {most} rounds, not {rounds}")
    return _turns(seats, rounds)


def rings(nodes: Sequence[str], groups: Mapping[str, str]) -> list[Group]:
    """The nodes of each group, and all of them, where they are three or more: two are a pair. Smallest first.

    groups  node → what it shares with others; {} where nothing is known

    >>> rings(["a", "b", "c", "d", "e"], {"a": "x", "b": "x", "c": "x", "d": "y", "e": "y"})
    [('a', 'b', 'c'), ('a', 'b', 'c', 'd', 'e')]
    """
    members: dict[str, list[str]] = {}
    for node in _distinct(nodes):
        members.setdefault(groups.get(node, ""), []).append(node)
    found = dict.fromkeys([*map(tuple, members.values()), tuple(nodes)])
    return sorted((ring for ring in found if len(ring) >= FEWEST_OF_RING), key=len)


def most_rounds(nodes: int) -> int:
    """Rounds until each of so many nodes has met each other.

    >>> most_rounds(4), most_rounds(5), most_rounds(0)
    (3, 5, 0)
    """
    return max(nodes + nodes % 2 - 1, 0)


def _turns(seats: list[str | None], rounds: int) -> Iterator[list[Group]]:
    half = len(seats) // 2
    for _ in range(rounds):
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        yield [(a, b) for a, b in facing if a is not None and b is not None]
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _distinct(nodes: Sequence[str]) -> Sequence[str]:
    if len(set(nodes)) != len(nodes):
        twice = sorted({node for node in nodes if nodes.count(node) > 1})
        raise ValueError(f"named twice: {', '.join(twice)}")
    return nodes

"""Which nodes of a cluster are measured together in a sweep: each alone, pairs in rounds, then rings. Pure.

In a round each node has at most one partner, so that all pairs of a round can run concurrently without
sharing a node; over all rounds of a tournament every two nodes meet once. A few rounds are enough to tell a
bad node from a bad pair: it is slow with every partner.
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
    """Rounds of pairs, one after the other: as many as `rounds`; all possible rounds if `rounds` is None.

    With an odd number of nodes, one rests in each round, a different one each time. No two nodes meet twice.
    The seed shuffles which nodes meet in the first rounds, so that neighbors by name, which often share
    a rack and a switch, are not preferred.

    Source: the circle method for round-robin tournaments (Kirkman 1847): one seat stays, the others move on.
    Raises ValueError for more rounds than possible, or a node listed twice.

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
    """The nodes of each group, and all nodes, if they are three or more: two are a pair. Smallest first.

    groups  node → what it shares with others; {} if unknown

    >>> rings(["a", "b", "c", "d", "e"], {"a": "x", "b": "x", "c": "x", "d": "y", "e": "y"})
    [('a', 'b', 'c'), ('a', 'b', 'c', 'd', 'e')]
    """
    members: dict[str, list[str]] = {}
    for node in _distinct(nodes):
        members.setdefault(groups.get(node, ""), []).append(node)
    candidates = dict.fromkeys([*map(tuple, members.values()), tuple(nodes)])
    return sorted((ring for ring in candidates if len(ring) >= FEWEST_OF_RING), key=len)


def most_rounds(nodes: int) -> int:
    """Number of rounds until each of `nodes` nodes has met every other.

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
        raise ValueError(f"listed twice: {', '.join(twice)}")
    return nodes

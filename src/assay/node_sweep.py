"""A sweep over nodes: which exist, which are measured together, and how slow ones are kept free of jobs.

A sweep is a suite and one system for each group of nodes. So its sessions are ordinary ones: they are
resumed after an interruption, shown, compared, and exported like any other. Repeats are blocks, in which each
node has its turn, so that drift affects all alike.

In a round each node has at most one partner, so that all pairs of a round can run concurrently without
sharing a node; over all rounds of a tournament every two nodes meet once. A few rounds are enough to tell a
bad node from a bad pair: it is slow with every partner.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from assay import launch
from assay.errors import InputError
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeAccess, NodeQuery

NODES, PAIRS, RINGS = "sweep-nodes", "sweep-pairs", "sweep-rings"  # the suites' names
GROUPS_FILE = "groups.json"  # file of a session: node → what it shares with others
_MOST_LETTERS = 40  # in a system's name
_PAYLOAD_BYTES = 2**24
_MOST_PAYLOAD_BYTES = 2**28
_SIZE = 2048  # rows of the matrices
# Each node alone: workload → its parameters, besides timing and device
_ALONE: Mapping[str, Mapping[str, Any]] = {"matmul": {"sizes": [_SIZE], "dtypes": ["fp32"]}, "membw": {}}


def systems(definition: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, dict[str, Any]]:
    """Group of nodes → the same system bound to them, under a name for them. `bound` reads it back."""
    binding = node_access(definition["launcher"]).binding
    return {_name(group): binding.bind(definition, group) for group in groups}


def bound(definition: Mapping[str, Any]) -> Group:
    """The nodes that `systems` bound a system to. Raises InputError or KeyError if it was not bound."""
    return node_access(definition["launcher"]).binding.nodes(definition)


def nodes_suite(
    names: Sequence[str], repeats: int, device: str, seconds: float, *, disk: str = ""
) -> dict[str, Any]:
    """Each node alone: arithmetic and memory, and reading in this directory on it, if one is set."""
    timed = {"min_time_s": seconds, "device": device}
    benchmarks = {name: {"workload": name, "params": {**params, **timed}} for name, params in _ALONE.items()}
    if disk:
        benchmarks["disk"] = {"workload": "disk", "params": {"directory": disk, "min_time_s": seconds}}
    return _suite(NODES, names, repeats) | {"shapes": ["1x1"], "benchmarks": benchmarks}


def pairs_suite(names: Sequence[str], repeats: int, device: str, seconds: float) -> dict[str, Any]:
    """Two nodes together: one rank each, an all-reduce of 16 MiB."""
    return _suite(PAIRS, names, repeats) | _allreduce(2, _PAYLOAD_BYTES, device, seconds)


def rings_suite(
    names: Sequence[str], repeats: int, device: str, seconds: float, *, nodes: int
) -> dict[str, Any]:
    """Several nodes together: one rank each, an all-reduce whose steps carry the payload of a pair's.

    A ring splits the payload into as many parts as it has nodes, so it grows with them, up to 256 MiB.
    """
    payload = min(_PAYLOAD_BYTES // 2 * nodes, _MOST_PAYLOAD_BYTES)
    return _suite(RINGS, names, repeats) | _allreduce(nodes, payload, device, seconds)


def _allreduce(nodes: int, payload_bytes: int, device: str, seconds: float) -> dict[str, Any]:
    params = {"payload_bytes": [payload_bytes], "min_time_s": seconds, "device": device}
    benchmarks = {"allreduce": {"workload": "allreduce", "params": params}}
    return {"shapes": [f"{nodes}x1x{nodes}"], "benchmarks": benchmarks}


def _suite(name: str, names: Sequence[str], repeats: int) -> dict[str, Any]:
    return {"suite": name, "systems": [*names], "repeats": repeats, "timeout": "10min"}


def _name(group: Group) -> str:
    """The nodes' own names if they are valid system names; otherwise a shortened form with a digest.

    It depends only on these nodes, so that a baseline's figures are never another node's.
    """
    own = "--".join(group)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", own).lstrip("._-")
    if name == own and len(name) <= _MOST_LETTERS:
        return name
    digest = hashlib.sha256(own.encode()).hexdigest()[:8]
    return f"{name[: _MOST_LETTERS - len(digest) - 1] or 'node'}-{digest}"


NodeList = Callable[[], Sequence[Member]]
"""Lists the nodes as they are now, by name. Raises LaunchError if the platform does not respond."""


def node_access(launcher: str) -> NodeAccess[BaseModel]:
    """The nodes of systems with this launcher. Raises InputError if such a system is one machine."""
    nodes = launch.PLATFORMS[launcher].nodes
    if nodes is None:
        clusters = [name for name, platform in launch.PLATFORMS.items() if platform.nodes and name != "ssh"]
        raise InputError(
            "a sweep binds each job to its nodes, but this system is one machine; list several as `hosts` of "
            f"a system with launcher ssh, or sweep a cluster ({', '.join(clusters)})"
        )
    return nodes


def member_list(
    launcher: str, options: BaseModel, *, named: Sequence[str] = (), idle: bool = False, by: str = ""
) -> NodeList:
    """A function that lists the nodes of a system with these options.

    named  only these, as the user wrote them
    idle   find out what uses each
    by     find out what nodes share, by this label

    Raises InputError for a system of one node; `NodeList` does so for a query that the platform can't
    answer, a missing permission, and a name that no node has.
    """
    nodes, query = node_access(launcher), NodeQuery(named, idle, by)
    return lambda: nodes.members(options, query)


def keep_off_methods(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Each way that a system has; the most effective comes last.

    definition  of the system in systems.yaml: its launcher, and which cluster
    slow        node, by its name in the cluster → what it is slow at
    """
    nodes = launch.PLATFORMS[definition["launcher"]].nodes
    names = KeepOffMethod("names", "one per line", tuple(slow))
    return (names, *(() if nodes is None else nodes.keep_off(definition, slow)))


def keep_off_method(definition: Mapping[str, Any], slow: Mapping[str, Losses], form: str) -> KeepOffMethod:
    """One of these ways. Raises InputError if the system does not have it."""
    known = {method.form: method for method in keep_off_methods(definition, slow)}
    if form not in known:
        raise InputError(f"launcher {definition['launcher']} has no form {form}; use {', '.join(known)}")
    return known[form]


Group = tuple[str, ...]
"""Nodes that run one job together."""

FEWEST_OF_RING = 3


def each_alone(nodes: Sequence[str]) -> list[Group]:
    """Each node by itself.

    >>> each_alone(["a", "b"])
    [('a',), ('b',)]
    """
    return [(node,) for node in _distinct(nodes)]


def pair_rounds(nodes: Sequence[str], rounds: int | None = None, *, seed: int = 0) -> Iterator[list[Group]]:
    """Rounds of pairs, one after the other: as many as `rounds`; all possible rounds if `rounds` is None.

    With an odd number of nodes, one rests in each round, a different one each time. No two nodes meet twice.
    The seed shuffles which nodes meet in the first rounds, so that neighbors by name, which often share
    a rack and a switch, are not preferred.

    Source: the circle method for round-robin tournaments (Kirkman 1847): one seat stays, the others move on.
    Raises ValueError for more rounds than possible, or a node listed twice.

    >>> [sorted(map(sorted, one)) for one in pair_rounds(["a", "b", "c", "d"])]
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


def ring_groups(nodes: Sequence[str], groups: Mapping[str, str]) -> list[Group]:
    """The nodes of each group, and all nodes, if they are three or more: two are a pair. Smallest first.

    groups  node → what it shares with others; {} if unknown

    >>> ring_groups(["a", "b", "c", "d", "e"], {"a": "x", "b": "x", "c": "x", "d": "y", "e": "y"})
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

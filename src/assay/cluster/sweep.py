"""A sweep over nodes, expressed as a suite and one system for each group of nodes. Pure.

So a sweep's sessions are ordinary ones: they are resumed after an interruption, shown, compared, and
exported like any other. Repeats are blocks, in which each node has its turn, so that drift affects all alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.cluster.members import access
from assay.cluster.rounds import Group

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
    binding = access(definition["launcher"]).binding
    return {_name(group): binding.bind(definition, group) for group in groups}


def bound(definition: Mapping[str, Any]) -> Group:
    """The nodes that `systems` bound a system to. Raises InputError or KeyError if it was not bound."""
    return access(definition["launcher"]).binding.nodes(definition)


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

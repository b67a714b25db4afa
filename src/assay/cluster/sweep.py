"""A sweep over nodes as what Assay runs anyway: a suite, and a system for each group of nodes. Pure.

So a sweep's sessions are ordinary ones: they are gone on with after an interruption, shown, compared and
exported as any other. Repeats are blocks, in which each node has its turn, so that drift falls on all alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.cluster.rounds import Group
from assay.errors import InputError

NODES, PAIRS = "sweep-nodes", "sweep-pairs"  # the suites' names
_MOST_LETTERS = 40  # of a system's name
_PAYLOAD_BYTES = 2**24
_SIZE = 2048  # rows of the matrices


def hosts_of(name: str, definition: Mapping[str, Any]) -> list[str]:
    """The nodes of a system that jobs can be bound to one by one. Raises InputError for one that has none."""
    if definition["launcher"] != "ssh":
        raise InputError(
            f"{name} is reached through {definition['launcher']}; a sweep binds each job to its nodes, which "
            "is done for systems of launcher `ssh`: name the nodes as `hosts` of one"
        )
    return [str(host) for host in definition["hosts"]]


def systems(definition: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, dict[str, Any]]:
    """Group of hosts → the same system with these hosts alone, by a name that tells them.

    A pair meets at its first host's own address: `master_address` is that of the system's first host.
    """
    own = {key: value for key, value in definition.items() if key != "master_address"}
    return {_name(group): {**own, "hosts": [*group]} for group in groups}


def nodes_suite(names: Sequence[str], repeats: int, device: str, seconds: float) -> dict[str, Any]:
    """Each node alone: arithmetic and memory."""
    timed = {"min_time_s": seconds, "device": device}
    matmul = {"workload": "matmul", "params": {"sizes": [_SIZE], "dtypes": ["fp32"], **timed}}
    return _suite(NODES, names, repeats) | {
        "shapes": ["1x1"],
        "benchmarks": {"matmul": matmul, "membw": {"workload": "membw", "params": timed}},
    }


def pairs_suite(names: Sequence[str], repeats: int, device: str, seconds: float) -> dict[str, Any]:
    """Two nodes together: one rank each, an all-reduce of 16 MiB."""
    params = {"payload_bytes": [_PAYLOAD_BYTES], "min_time_s": seconds, "device": device}
    return _suite(PAIRS, names, repeats) | {
        "shapes": ["2x1x2"],
        "benchmarks": {"allreduce": {"workload": "allreduce", "params": params}},
    }


def _suite(name: str, names: Sequence[str], repeats: int) -> dict[str, Any]:
    return {"suite": name, "systems": [*names], "repeats": repeats, "timeout": "10min"}


def _name(group: Group) -> str:
    """The hosts' own names where those can be a system's; else what fits of them, and a digest of them.

    It depends on these hosts alone, so that a baseline's figures are never another host's.
    """
    own = "--".join(group)
    told = re.sub(r"[^A-Za-z0-9._-]", "_", own).lstrip("._-")
    if told == own and len(told) <= _MOST_LETTERS:
        return told
    digest = hashlib.sha256(own.encode()).hexdigest()[:8]
    return f"{told[: _MOST_LETTERS - len(digest) - 1] or 'host'}-{digest}"

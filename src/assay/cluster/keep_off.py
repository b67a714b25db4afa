"""Slow nodes as commands that keep jobs off them, in the cluster's own words: printed, never run. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError

KEY = "assay.dev/slow"  # of labels and taints
_MOST_LETTERS = 63  # of a label's value

Losses = Mapping[str, float]
"""What a node is slow in → its speed there over that of its like, below 1."""


@dataclass(frozen=True)
class Way:
    """One way to keep jobs off nodes.

    form   what the user asks for it by
    does   in words
    apply  commands, one a node, that a shell takes as they are
    undo   those that take them back, in the same order
    """

    form: str
    does: str
    apply: tuple[str, ...]
    undo: tuple[str, ...] = ()


def ways(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[Way, ...]:
    """Each way that a system has, what keeps most jobs off last.

    definition  of the system in systems.yaml: its launcher, and which cluster
    slow        node, by the name that the cluster knows it by → what it is slow in
    """
    names = Way("names", "each on a line", tuple(slow))
    by_launcher: Mapping[str, Callable[[], Sequence[Way]]] = {
        "kubernetes": lambda: _kubernetes(definition.get("context"), slow),
        "slurm": lambda: _slurm(slow),
    }
    return names, *by_launcher.get(definition["launcher"], tuple)()


def way(definition: Mapping[str, Any], slow: Mapping[str, Losses], form: str) -> Way:
    """One way of them. Raises InputError where the system has none such."""
    known = {one.form: one for one in ways(definition, slow)}
    if form not in known:
        raise InputError(
            f"nodes reached through {definition['launcher']} have no {form}; there is {', '.join(known)}"
        )
    return known[form]


def _kubernetes(context: str | None, slow: Mapping[str, Losses]) -> tuple[Way, ...]:
    def said(*words: str) -> str:
        return shlex.join(["kubectl", *(["--context", context] if context else []), *words])

    pairs = {node: f"{KEY}={_label(losses)}" for node, losses in slow.items()}
    return (
        Way(
            "labels",
            "for a job's nodeAffinity to avoid",
            tuple(said("label", "node", "--overwrite", node, pair) for node, pair in pairs.items()),
            tuple(said("label", "node", node, f"{KEY}-") for node in slow),
        ),
        Way(
            "taints",
            "pods go elsewhere while there is room",
            tuple(
                said("taint", "node", "--overwrite", node, f"{pair}:PreferNoSchedule")
                for node, pair in pairs.items()
            ),
            tuple(said("taint", "node", node, f"{KEY}:PreferNoSchedule-") for node in slow),
        ),
        Way(
            "drain",
            "no new pods; those that run stay",
            tuple(said("cordon", node) for node in slow),
            tuple(said("uncordon", node) for node in slow),
        ),
    )


def _slurm(slow: Mapping[str, Losses]) -> tuple[Way, ...]:
    def said(node: str, *words: str) -> str:
        return shlex.join(["scontrol", "update", f"NodeName={node}", *words])

    return (
        Way(
            "drain",
            "no new jobs; those that run stay",
            tuple(said(node, "State=DRAIN", f"Reason={reason(found)}") for node, found in slow.items()),
            tuple(said(node, "State=RESUME") for node in slow),
        ),
    )


def reason(losses: Losses) -> str:
    """Why, in words that stand beside the node.

    >>> reason({"matmul": 0.663, "allreduce": 0.5})
    'assay: matmul at 0.66, allreduce at 0.50 of its like'
    """
    return f"assay: {', '.join(f'{what} at {ratio:.2f}' for what, ratio in losses.items())} of its like"


def _label(losses: Losses) -> str:
    """What a node is slow in, as a label's value: letters, digits and `-_.`, at most 63."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(losses))[:_MOST_LETTERS].strip("-_.")

"""A way to keep jobs off slow nodes: commands in the platform's own words, printed and never run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Losses = Mapping[str, float]
"""What a node is slow at → its speed relative to similar nodes, below 1."""


@dataclass(frozen=True)
class KeepOffMethod:
    """One way to keep jobs off nodes.

    form   the name by which the user requests it
    does   what it does, as text
    apply  commands, one per node, that a shell takes unchanged
    undo   the commands that undo them, in the same order
    """

    form: str
    does: str
    apply: tuple[str, ...]
    undo: tuple[str, ...] = ()


def reason(losses: Losses) -> str:
    """Why jobs are kept off, as text that a platform shows with the node.

    >>> reason({"matmul": 0.663, "allreduce": 0.5})
    'assay: matmul at 0.66, allreduce at 0.50 of similar nodes'
    """
    return f"assay: {', '.join(f'{what} at {ratio:.2f}' for what, ratio in losses.items())} of similar nodes"

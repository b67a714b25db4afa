"""A way to keep jobs off slow nodes: commands in the platform's own words, printed and never run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Losses = Mapping[str, float]
"""What a node is slow in → its speed there over that of nodes like it, below 1."""


@dataclass(frozen=True)
class KeepOffMethod:
    """One way to keep jobs off nodes.

    form   what the user requests it by
    does   what it does, as text
    apply  commands, one a node, that a shell takes unchanged
    undo   those that take them back, in the same order
    """

    form: str
    does: str
    apply: tuple[str, ...]
    undo: tuple[str, ...] = ()


def reason(losses: Losses) -> str:
    """Why jobs are kept off, as text that a platform shows with the node.

    >>> reason({"matmul": 0.663, "allreduce": 0.5})
    'assay: matmul at 0.66, allreduce at 0.50 of its like'
    """
    return f"assay: {', '.join(f'{what} at {ratio:.2f}' for what, ratio in losses.items())} of its like"

"""Nodes of a system in a sweep: which exist, which were chosen, and how a job is bound to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.errors import InputError


@dataclass(frozen=True)
class Member:
    """One node.

    name    as the system's launcher binds jobs to it
    away    why no job can start there now, as text; "" if one can
    used    what keeps it from being idle, as text; "" if nothing does, or if that was not requested
    shared  what it has in common with others, by label: its rack, its zone, its switch
    """

    name: str
    away: str = ""
    used: str = ""
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeQuery:
    """Which nodes to list, and what to find out about each.

    named  only these, as the user wrote them; empty: all
    idle   find out what uses each node
    by     label of what nodes share, to look up; "": none
    """

    named: Sequence[str] = ()
    idle: bool = False
    by: str = ""


@dataclass(frozen=True)
class Binding:
    """The option of a system that names the nodes of its jobs.

    joined_by  separator of the names if the option is one string; None if it is a list
    without    options that change their meaning once a system has other nodes
    """

    option: str
    joined_by: str | None = None
    without: tuple[str, ...] = ()

    def bind(self, definition: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
        """The definition of the same system with these nodes only."""
        own = {key: value for key, value in definition.items() if key not in self.without}
        return {**own, self.option: [*nodes] if self.joined_by is None else self.joined_by.join(nodes)}

    def nodes(self, definition: Mapping[str, Any]) -> tuple[str, ...]:
        """The nodes that a definition was bound to. Raises KeyError if it was not bound."""
        named = definition[self.option]
        return tuple(named) if self.joined_by is None else tuple(named.split(self.joined_by))


def chosen(there: Collection[str], named: Sequence[str]) -> list[str]:
    """The named nodes; all nodes if none is named. Raises InputError for a name that no node has."""
    if unknown := [name for name in named if name not in there]:
        few = ", ".join(sorted(there)[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
        raise InputError(f"--nodes: the system has no node {', '.join(unknown)}; it has {few}")
    return [name for name in there if not named or name in named]

"""A node of a system that is swept, and those that were chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assay.errors import InputError


@dataclass(frozen=True)
class Member:
    """One node.

    name    as the system's launcher binds jobs to it
    away    why no job can begin there now, in words; "" where one can
    used    what of others keeps it from being idle, in words; "" where nothing does, or nobody was asked
    shared  what it has in common with others, by label: its rack, its zone, its switch
    """

    name: str
    away: str = ""
    used: str = ""
    shared: Mapping[str, str] = field(default_factory=dict)


def chosen(there: Collection[str], named: Sequence[str]) -> list[str]:
    """Those of the nodes that are named, all where none is. Raises InputError for a name that none has."""
    if unknown := [name for name in named if name not in there]:
        few = ", ".join(sorted(there)[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
        raise InputError(f"--nodes: the system has no {', '.join(unknown)}; it has {few}")
    return [name for name in there if not named or name in named]

"""What the package of a launcher offers: one `PLATFORM`, with everything that is specific to its platform.

Its functions import what they need when they are called, so that an unused platform costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from assay.checks import Check
from assay.errors import InputError
from assay.launch.launcher import Launcher
from assay.records import Scalar
from assay.registry import imported

Options = TypeVar("Options", bound=BaseModel)


def late(place: str) -> Callable[..., Any]:
    """A function that calls what is at `module:NAME`, which is imported when it is first called."""
    return lambda *args: imported(place)(*args)


Losses = Mapping[str, float]
"""What a node is slow at → its speed relative to similar nodes, below 1."""


@dataclass(frozen=True)
class DoctorRequest:
    """What `assay doctor` should examine, besides the system's options.

    system     the system's name on a command line, for commands in remedies
    directory  an existing directory on the disk that holds the runs
    data       absolute path of a directory, as the trials see it, whose read speed to measure; None: none
    deep       also run something on the platform to look from inside, if that is not done anyway
    report     called with what starts now, as text
    """

    system: str
    directory: Path
    data: str | None
    deep: bool
    report: Callable[[str], None]


@dataclass(frozen=True)
class Examination:
    """What the doctor found.

    facts   name → value; with several hosts, also host → its own table
    checks  what the facts mean, in the order in which people fix things
    """

    facts: Mapping[str, Scalar | Mapping[str, Scalar]]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class NodeAccess(Generic[Options]):
    """The nodes of a platform that has several.

    members   lists the nodes of a system as they are now, by name. Raises InputError for a query that the
              platform can't answer or a name that no node has, LaunchError if it does not respond
    binding   how a system's definition names the nodes that its jobs run on
    keep_off  ways to keep jobs off slow nodes, given the system's definition; the most effective comes last
    """

    members: Callable[[Options, NodeQuery], Sequence[Member]]
    binding: Binding
    keep_off: Callable[[Mapping[str, Any], Mapping[str, Losses]], Sequence[KeepOffMethod]]


@dataclass(frozen=True)
class Platform(Generic[Options]):
    """One way to start jobs.

    options   model of such a system's options in systems.yaml; `max_nodes` is the most nodes that a job
              can use, None if there is no limit
    launcher  makes the launcher of a system; its directory must stay the same for a job to be found again
    doctor    examines a system. Never raises for an unusable system: the checks say why
    nodes     None if such a system is one machine
    """

    options: type[Options]
    launcher: Callable[[Options, Path], Launcher]
    doctor: Callable[[Options, DoctorRequest], Examination]
    nodes: NodeAccess[Options] | None = None


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

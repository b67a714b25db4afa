"""What the package of a launcher offers: one `PLATFORM`, with everything that is specific to its platform.

Its functions import what they need when they are called, so that an unused platform costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from assay.checks.check import Check
from assay.launch.keep_off import KeepOffMethod, Losses
from assay.launch.launcher import Launcher
from assay.launch.nodes import Binding, Member, NodeQuery
from assay.records import Scalar

Options = TypeVar("Options", bound=BaseModel)


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

"""The nodes of a system: which exist, which are away, and who else uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel

from assay import launch
from assay.errors import InputError
from assay.launch.nodes import Member, NodeQuery
from assay.launch.platform import NodeAccess

NodeList = Callable[[], Sequence[Member]]
"""Lists the nodes as they are now, by name. Raises LaunchError if the platform does not respond."""


def access(launcher: str) -> NodeAccess[BaseModel]:
    """The nodes of systems with this launcher. Raises InputError if such a system is one machine."""
    nodes = launch.PLATFORMS[launcher].nodes
    if nodes is None:
        clusters = [name for name, platform in launch.PLATFORMS.items() if platform.nodes and name != "ssh"]
        raise InputError(
            "a sweep binds each job to its nodes, but this system is one machine; list several as `hosts` of "
            f"a system with launcher ssh, or sweep a cluster ({', '.join(clusters)})"
        )
    return nodes


def members(
    launcher: str, options: BaseModel, *, named: Sequence[str] = (), idle: bool = False, by: str = ""
) -> NodeList:
    """A function that lists the nodes of a system with these options.

    named  only these, as the user wrote them
    idle   find out what uses each
    by     find out what nodes share, by this label

    Raises InputError for a system of one node; `NodeList` does so for a query that the platform can't
    answer, a missing permission, and a name that no node has.
    """
    nodes, query = access(launcher), NodeQuery(named, idle, by)
    return lambda: nodes.members(options, query)

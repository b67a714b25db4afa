"""The nodes of a system: which there are, which are away, and who else uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel

from assay import launch
from assay.errors import InputError
from assay.launch.nodes import Member, NodeQuery
from assay.launch.platform import NodeAccess

NodeList = Callable[[], Sequence[Member]]
"""Lists the nodes as they are at this moment, by name. Raises LaunchError where the platform is silent."""


def access(launcher: str) -> NodeAccess[BaseModel]:
    """The nodes of systems with this launcher. Raises InputError where such a system is one machine."""
    nodes = launch.PLATFORMS[launcher].nodes
    if nodes is None:
        raise InputError(
            "a sweep binds each job to its nodes, and this system is one machine; name several as `hosts` of "
            "a system with launcher ssh, or sweep a Kubernetes, Slurm or LSF cluster"
        )
    return nodes


def members(
    launcher: str, options: BaseModel, *, named: Sequence[str] = (), idle: bool = False, by: str = ""
) -> NodeList:
    """What lists the nodes of a system with these options.

    named  only these, as the user wrote them
    idle   find out what uses each
    by     find out what it shares by this label

    Raises InputError for a system of one node; `NodeList` does so for a query that the platform can't
    answer, a right that is missing, and a name that no node has.
    """
    nodes, query = access(launcher), NodeQuery(named, idle, by)
    return lambda: nodes.members(options, query)

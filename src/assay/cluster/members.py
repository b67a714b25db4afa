"""The nodes of a system: which there are, which are away, and who else uses them, asked of its platform."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel

from assay.cluster import slurm_members
from assay.cluster.member import Member, chosen
from assay.errors import InputError
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.slurm.options import SlurmSystem
from assay.launch.ssh.options import SshSystem

Ask = Callable[[], Sequence[Member]]
"""The nodes as they are at this moment, by name. Raises LaunchError where the platform gives no answer."""


def members(options: BaseModel, *, named: Sequence[str] = (), idle: bool = False, by: str = "") -> Ask:
    """Who tells the nodes of a system with these options.

    named  only these, as the user wrote them
    idle   tell what uses each
    by     tell what it shares by this label

    Raises InputError for a system of one node, or one whose platform can't tell what is asked; `Ask` does
    so for a right that is missing, and for a name that no node has.
    """
    from assay.cluster.kubernetes import members as kubernetes_members

    if isinstance(options, KubernetesSystem):
        return lambda: kubernetes_members.ask(options, named, idle=idle)
    if isinstance(options, SlurmSystem):
        return lambda: slurm_members.ask(options, named, idle=idle, by=by)
    if isinstance(options, SshSystem):
        return lambda: _hosts(options, named, idle=idle, by=by)
    raise InputError(
        "a sweep binds each job to its nodes, and this system is one machine; name several as `hosts` of a "
        "system with launcher ssh, or sweep a Kubernetes or Slurm cluster"
    )


def _hosts(system: SshSystem, named: Sequence[str], *, idle: bool, by: str) -> list[Member]:
    if idle or by:
        raise InputError(
            f"{'--idle' if idle else '--by'}: hosts that are reached by ssh tell neither who uses them nor "
            "what they share; leave it out, and name the hosts to take with --nodes"
        )
    return [Member(host) for host in chosen(system.hosts, named)]

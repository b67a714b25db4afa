"""What was seen of a cluster, or the permission that was missing to see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.checks import Check
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.objects.rbac import Right
from assay.launch.kubernetes.options import KubernetesSystem

GRANT = "an administrator can grant it: assay cluster rbac --doctor SYSTEM | kubectl apply -f -"


@dataclass(frozen=True)
class ReadFailure:
    """What could not be read: the verb and the resource, and what the API server said."""

    tried: str
    message: str
    forbidden: bool

    def check(self, name: str) -> Check:
        """The check that depends on it: unknown, and why."""
        if self.forbidden:
            return Check(name, "unknown", f"not readable: this user may not {self.tried}", GRANT)
        return Check(name, "unknown", f"not readable: {self.message}")


@dataclass(frozen=True)
class AdmissionRefusal:
    """The API server's refusal to admit the system's pods, in its own words."""

    message: str


Objects = Sequence[Object] | ReadFailure
Maybe = Object | None | ReadFailure
"""An object; None if it does not exist."""


@dataclass(frozen=True)
class ClusterView:
    """A cluster as one user sees it.

    rights         each permission that a run needs, and whether this user has it
    kinds          job kinds that the system may send → whether the API server knows them
    admitted       a pod of the system as the API server would accept it, with its additions; from a dry run
    is_openshift   this is OpenShift, not a cluster that only has some of its kinds
    space          the namespace; account: the pods' ServiceAccount; claims: those that are mounted
    account_may    what the pods' ServiceAccount may do that a benchmark never needs
    may_use_scc    whether that account may use the prepared constraints
    kubelets       settings of each node's kubelet, for as many nodes as were queried
    server_ahead_s how far the API server's clock is ahead of this one, seconds: between these two values
    read_at        when the leases were read, by this machine's clock
    """

    system: KubernetesSystem
    context: str
    namespace: str
    version: str
    rights: Mapping[Right, bool]
    kinds: Mapping[str, bool]
    admitted: Object | AdmissionRefusal | ReadFailure
    is_openshift: bool
    space: Maybe
    quotas: Objects
    account: Maybe
    account_may: Sequence[str] | ReadFailure
    constraints: Maybe
    may_use_scc: bool | ReadFailure
    nodes: Objects
    pods: Objects
    deployments: Objects
    storage_classes: Objects
    leases: Objects
    server_ahead_s: tuple[float, float] | ReadFailure
    read_at: float
    claims: Mapping[str, Maybe] = field(default_factory=dict)
    kubelets: Mapping[str, Object] | ReadFailure = field(default_factory=dict)

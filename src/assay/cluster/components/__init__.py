"""The parts that `assay cluster prepare` knows, and the combination of the chosen ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.cluster.components.component import Component, PreparationTarget, UpstreamRelease
from assay.cluster.components.device_operators import GpuOperator, NetworkOperator, NodeFeatureDiscovery
from assay.cluster.components.job_operators import JobSet, Kueue, MPIOperator, Trainer
from assay.cluster.components.monitoring import Monitoring
from assay.cluster.components.node_settings import Chrony, HugePages, Memlock, Numa
from assay.cluster.components.pods import Pods, Registry, Storage
from assay.cluster.components.scheduled_suite import QuickSuite
from assay.cluster.components.serve import Serve
from assay.launch.kubernetes.objects.order import Manifest

_PARTS: tuple[type[Component], ...] = (
    Pods,
    Registry,
    Storage,
    NodeFeatureDiscovery,
    GpuOperator,
    NetworkOperator,
    MPIOperator,
    JobSet,
    Trainer,
    Kueue,
    Monitoring,
    Serve,
    QuickSuite,
    Chrony,
    HugePages,
    Memlock,
    Numa,
)
PARTS: Mapping[str, type[Component]] = {part.name: part for part in _PARTS}
"""By name, in the order of creation."""

KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("security.openshift.io/v1", "SecurityContextConstraints"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("operators.coreos.com/v1", "OperatorGroup"),
    ("operators.coreos.com/v1alpha1", "Subscription"),
    ("nfd.openshift.io/v1", "NodeFeatureDiscovery"),
    ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"),
    ("nvidia.com/v1", "ClusterPolicy"),
    ("mellanox.com/v1alpha1", "NicClusterPolicy"),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "ConfigMap"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("route.openshift.io/v1", "Route"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("machineconfiguration.openshift.io/v1", "MachineConfig"),
    ("machineconfiguration.openshift.io/v1", "KubeletConfig"),
    ("performance.openshift.io/v2", "PerformanceProfile"),
)
"""Every kind of the parts' objects, in the order of creation: where to look for them later."""


@dataclass(frozen=True)
class Preparation:
    """The parts chosen for one target, in the order of creation.

    whole  these are all: other parts of an earlier preparation are removed
    """

    target: PreparationTarget
    parts: tuple[Component, ...]
    whole: bool = True

    def names(self) -> Sequence[str]:
        """Names of its parts."""
        return [part.name for part in self.parts]

    def objects(self) -> list[tuple[str, Manifest]]:
        """Each object with the name of its part."""
        return [(part.name, obj) for part in self.parts for obj in part.objects(self.target)]

    def makes(self, api_version: str, kind: str, name: str) -> bool:
        """Whether such an object is among them."""
        return any(
            (obj["apiVersion"], obj["kind"], obj["metadata"]["name"]) == (api_version, kind, name)
            for _, obj in self.objects()
        )

    def references(self, name: str) -> list[UpstreamRelease]:
        """What must be installed for a part from its vendor's manifests."""
        return next(part.references(self.target) for part in self.parts if part.name == name)

    def comes_later(self, api_version: str) -> bool:
        """Whether one of the parts subscribes to the operator that provides the API."""
        group = api_version.rpartition("/")[0]
        return any(group in part.brings and not part.references(self.target) for part in self.parts)

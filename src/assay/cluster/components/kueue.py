"""Kueue: jobs wait until all their pods fit. One queue with a quota for the pods' namespace."""

# ruff: noqa: N815  (Kueue's own names)

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from assay.cluster.components.component import (
    Component,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.quantities import Quantity

VERSION = "kueue.x-k8s.io/v1beta2"


class Kueue(Component):
    """Kueue."""

    name: ClassVar = "kueue"
    about: ClassVar = "Kueue 0.19, and one queue with a quota for the pods' namespace"
    brings: ClassVar = ("kueue.x-k8s.io",)
    sign: ClassVar = (VERSION, "LocalQueue")

    quota: dict[str, Quantity] = Field(
        min_length=1,
        description="What jobs in the queue may use together, like {cpu: 64, nvidia.com/gpu: 8}.",
    )
    queue: str = Field("assay", description="Name of the LocalQueue, for the system's `queue`.")
    nodeLabels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the nodes to which the quota applies; default: all nodes.",
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """Flavor, quota, and queue; the first two are cluster-wide, so their names contain the namespace."""
        name = f"assay-{target.namespace}"
        quotas = [{"name": resource, "nominalQuota": amount} for resource, amount in self.quota.items()]
        group = {"coveredResources": [*self.quota], "flavors": [{"name": name, "resources": quotas}]}
        spec = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": target.namespace}},
            "resourceGroups": [group],
        }
        flavor = {"nodeLabels": self.nodeLabels} if self.nodeLabels else {}
        return [
            bare(VERSION, "ResourceFlavor", name, spec=flavor),
            bare(VERSION, "ClusterQueue", name, spec=spec),
            bare(VERSION, "LocalQueue", self.queue, target.namespace, spec={"clusterQueue": name}),
        ]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart."""
        del target
        chart = "oci://registry.k8s.io/kueue/charts/kueue --version 0.19.0"
        command = f"helm upgrade --install kueue {chart} --namespace kueue-system --create-namespace --wait"
        return [UpstreamRelease("Kueue", "chart 0.19.0", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The queue must accept jobs, as reported by Kueue."""
        active = ("status", "conditions", "Active")
        return [ObjectStatus(VERSION, "LocalQueue", self.queue, active, "True", target.namespace)]

"""Node Feature Discovery: labels that show which nodes have an NVIDIA GPU or an InfiniBand adapter."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from assay.cluster.components import olm
from assay.cluster.components.component import (
    Component,
    NodeLabel,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.launch.kubernetes.order import Manifest

NVIDIA, MELLANOX = "10de", "15b3"  # PCI vendors
# PCI classes: Ethernet, InfiniBand; display and 3D; accelerators. Discovery's own list lacks the first two
NETWORK, GPU = ("0200", "0207"), ("0300", "0302", "1200")
CHART = "oci://registry.k8s.io/nfd/charts/node-feature-discovery"
WORKER = """\
sources:
  pci:
    deviceClassWhitelist: ["0200", "0207", "03", "12"]
    deviceLabelFields: [vendor]
"""


class NodeFeatureDiscovery(olm.SubscriptionOptions, Component):
    """Node Feature Discovery."""

    name: ClassVar = "nfd"
    about: ClassVar = "labels of the nodes' devices: pci-10de (NVIDIA GPUs), pci-15b3 (Mellanox adapters)"
    brings: ClassVar = ("nfd.k8s-sigs.io", "nfd.openshift.io")
    sign: ClassVar = ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule")

    version: str = Field("0.19.0", description="Version of the Helm chart, on Kubernetes.")
    channel: str = Field("stable", description="Channel of the OLM package nfd, on OpenShift.")
    vendors: tuple[Literal["nvidia", "mellanox"], ...] = Field(
        ("nvidia", "mellanox"), min_length=1, description="Vendors whose devices are labeled."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: the operator and its operand; elsewhere: rules for the operator's worker."""
        if not target.is_openshift:
            return [_rules(self.vendors)]
        space = "openshift-nfd"
        operand = bare("nfd.openshift.io/v1", "NodeFeatureDiscovery", "nfd-instance", space)
        operator = olm.operator("nfd", space, self.channel, olm.RED_HAT, approval=self.approval)
        return [*operator, {**operand, "spec": {"workerConfig": {"configData": WORKER}}}]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart, if there is no OLM."""
        if target.is_openshift:
            return []
        install = f"helm upgrade --install nfd {CHART} --version {self.version}"
        space = "--namespace node-feature-discovery --create-namespace"
        return [
            UpstreamRelease("Node Feature Discovery", f"chart {self.version}", f"{install} {space} --wait")
        ]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The labels, through which everything else finds its nodes."""
        there: list[Requirement] = [olm.installed("nfd", "openshift-nfd")] if target.is_openshift else []
        return [*there, *(NodeLabel(_label(_VENDORS[vendor][0]), "true") for vendor in self.vendors)]


_VENDORS = {"nvidia": (NVIDIA, GPU), "mellanox": (MELLANOX, NETWORK)}


def _label(vendor: str) -> str:
    return f"feature.node.kubernetes.io/pci-{vendor}.present"


def _rules(vendors: tuple[str, ...]) -> Manifest:
    rules = [
        {
            "name": f"{vendor} devices",
            "labels": {_label(_VENDORS[vendor][0]): "true"},
            "matchFeatures": [
                {
                    "feature": "pci.device",
                    "matchExpressions": {
                        "vendor": {"op": "In", "value": [_VENDORS[vendor][0]]},
                        "class": {"op": "In", "value": list(_VENDORS[vendor][1])},
                    },
                }
            ],
        }
        for vendor in vendors
    ]
    return bare("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", "assay-devices", spec={"rules": rules})

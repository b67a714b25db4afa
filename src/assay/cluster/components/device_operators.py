"""Operators of devices: Node Feature Discovery, NVIDIA's GPU Operator, and its Network Operator.

On OpenShift each comes from the Operator Lifecycle Manager (OLM), elsewhere from its vendor's chart.
"""

# ruff: noqa: N815  (Mellanox's own names)

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from assay.cluster.components.component import (
    Component,
    ComponentOptions,
    NodeLabel,
    NodeResource,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.launch.kubernetes.objects.order import Manifest

OLM_GROUP = "operators.coreos.com"
CERTIFIED, RED_HAT = "certified-operators", "redhat-operators"


class SubscriptionOptions(ComponentOptions):
    """Options of a subscription."""

    approval: Literal["Automatic", "Manual"] = Field(
        "Automatic", description="Whether OLM installs updates from the channel without asking."
    )


def subscribed_operator(
    package: str, namespace: str, channel: str, source: str, *, approval: str, privileged: bool = False
) -> list[Manifest]:
    """Namespace, OperatorGroup, and Subscription of a package in OperatorHub.

    approval    Automatic, or Manual: each InstallPlan waits for a person
    privileged  whether the operator's own pods need the Pod Security level `privileged`
    """
    space = bare("v1", "Namespace", namespace)
    labels = {"openshift.io/cluster-monitoring": "true"}
    if privileged:
        labels["pod-security.kubernetes.io/enforce"] = "privileged"
    space["metadata"]["labels"] = labels
    subscription = {"channel": channel, "installPlanApproval": approval, "name": package, "source": source}
    return [
        space,
        bare(f"{OLM_GROUP}/v1", "OperatorGroup", package, namespace, spec={"targetNamespaces": [namespace]}),
        bare(
            f"{OLM_GROUP}/v1alpha1",
            "Subscription",
            package,
            namespace,
            spec={**subscription, "sourceNamespace": "openshift-marketplace"},
        ),
    ]


def operator_installed(package: str, namespace: str) -> ObjectStatus:
    """The subscription's operator must run at the newest approved version."""
    path = ("status", "state")
    return ObjectStatus(f"{OLM_GROUP}/v1alpha1", "Subscription", package, path, "AtLatestKnown", namespace)


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


class NodeFeatureDiscovery(SubscriptionOptions, Component):
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
        operator = subscribed_operator("nfd", space, self.channel, RED_HAT, approval=self.approval)
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
        there: list[Requirement] = [operator_installed("nfd", "openshift-nfd")] if target.is_openshift else []
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


GPU_PACKAGE = "gpu-operator-certified"
GPU_OPERATOR_NAMESPACE = {"kubernetes": "gpu-operator", "openshift": "nvidia-gpu-operator"}
NAME = {
    "kubernetes": "cluster-policy",
    "openshift": "gpu-cluster-policy",
}  # the names in the chart and in OLM
REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"


class GpuOperator(SubscriptionOptions, Component):
    """NVIDIA GPU Operator."""

    name: ClassVar = "gpu-operator"
    about: ClassVar = "NVIDIA GPU Operator: driver, container toolkit, device plugin, metrics"
    brings: ClassVar = ("nvidia.com",)
    sign: ClassVar = ("nvidia.com/v1", "ClusterPolicy")

    version: str = Field("v26.7.1", description="Version of the Helm chart, on Kubernetes.")
    channel: str = Field("v26.7", description=f"Channel of the OLM package {GPU_PACKAGE}, on OpenShift.")
    driver: bool = Field(True, description="false if the nodes have their own driver.")
    toolkit: bool = Field(True, description="false if the nodes have their own container toolkit.")
    kernel_modules: Literal["auto", "open", "proprietary"] | None = Field(
        None,
        description="Flavor of the kernel modules; default: the operator's choice. GPUDirect RDMA through "
        "DMA-BUF needs the open ones.",
    )
    peermem: bool = Field(
        False, description="Load nvidia-peermem, for kernels before 5.12 or GPUs before Turing."
    )
    mig: Literal["none", "single", "mixed"] = Field("none", description="How MIG devices are announced.")

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The ClusterPolicy; on OpenShift, after its operator."""
        if not target.is_openshift:
            return [self._policy(target)]
        space = GPU_OPERATOR_NAMESPACE["openshift"]
        operator = subscribed_operator(
            GPU_PACKAGE, space, self.channel, CERTIFIED, approval=self.approval, privileged=True
        )
        return [*operator, self._policy(target)]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart with the same settings, so that the two don't conflict."""
        if target.is_openshift:
            return []
        install = f"helm upgrade --install gpu-operator gpu-operator --repo {REPOSITORY}"
        space = f"--namespace {GPU_OPERATOR_NAMESPACE['kubernetes']} --create-namespace"
        # the part nfd provides discovery; the chart's values have the policy's names
        values = ("nfd.enabled=false", *_flat(self._policy(target)["spec"]))
        settings = " ".join(f"--set {value}" for value in values)
        command = f"{install} --version {self.version} {space} {settings} --wait"
        return [UpstreamRelease("NVIDIA GPU Operator", f"chart {self.version}", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The operator must report that it is ready, and a node must offer GPUs."""
        first: list[Requirement] = []
        if target.is_openshift:
            tag = ObjectStatus(
                "image.openshift.io/v1",
                "ImageStream",
                "driver-toolkit",
                ("metadata", "name"),
                "driver-toolkit",
                "openshift",
            )
            first = [operator_installed(GPU_PACKAGE, GPU_OPERATOR_NAMESPACE["openshift"]), tag]
        policy = ObjectStatus(
            "nvidia.com/v1", "ClusterPolicy", NAME[target.platform], ("status", "state"), "ready"
        )
        return [*first, policy, NodeResource("nvidia.com/gpu")]

    def _policy(self, target: PreparationTarget) -> Manifest:
        on = {"enabled": True}
        driver: dict[str, object] = {"enabled": self.driver, "rdma": {"enabled": self.peermem}}
        if self.kernel_modules is not None:
            driver["kernelModuleType"] = self.kernel_modules
        operator: dict[str, object] = {"defaultRuntime": "crio" if target.is_openshift else "containerd"}
        if target.is_openshift:  # kernel modules are built without a subscription of the nodes
            operator["use_ocp_driver_toolkit"] = True
        spec = {
            "operator": operator,
            "daemonsets": {"updateStrategy": "RollingUpdate"},
            "driver": driver,
            "toolkit": {"enabled": self.toolkit},
            "devicePlugin": on,
            "gfd": on,
            "dcgm": on,
            "dcgmExporter": on,
            "nodeStatusExporter": {"enabled": target.is_openshift},
            "mig": {"strategy": self.mig},
        }
        return bare("nvidia.com/v1", "ClusterPolicy", NAME[target.platform], spec=spec)


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Nested settings as arguments of `helm --set`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}={str(value).lower() if isinstance(value, bool) else value}"


NETWORK_PACKAGE = NETWORK_NAMESPACE = "nvidia-network-operator"
CHARTS = "https://helm.ngc.nvidia.com/nvidia"
IMAGES = "nvcr.io/nvidia/mellanox"
PREFIX = "rdma"  # of the resources' names


class Selectors(ComponentOptions):
    """Which adapters belong to a resource: those that match every given selector."""

    vendors: tuple[str, ...] = ()
    deviceIDs: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    ifNames: tuple[str, ...] = ()
    linkTypes: tuple[str, ...] = Field((), description="infiniband or ether.")


class SharedDevice(ComponentOptions):
    """One resource of the RDMA shared device plugin, with the plugin's own keys."""

    resourceName: str = Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$")
    rdmaHcaMax: int = Field(63, ge=1, description="How many pods on a node may use it at the same time.")
    selectors: Selectors | None = None
    devices: tuple[str, ...] = Field((), description="Network interfaces by name, instead of selectors.")

    @model_validator(mode="after")
    def _one_choice(self) -> SharedDevice:
        selects = self.selectors is not None and bool(self.selectors.model_dump(exclude_defaults=True))
        if selects == bool(self.devices):
            raise ValueError(f"{self.resourceName}: set at least one selector, or devices")
        return self


class NetworkOperator(SubscriptionOptions, Component):
    """NVIDIA Network Operator."""

    name: ClassVar = "network-operator"
    about: ClassVar = "NVIDIA Network Operator: InfiniBand and RoCE adapters as resources rdma/NAME"
    brings: ClassVar = ("mellanox.com",)
    sign: ClassVar = ("mellanox.com/v1alpha1", "NicClusterPolicy")

    version: str = Field("v26.4.1", description="Version of the operator and of the device plugin's image.")
    channel: str = Field("v26.4", description=f"Channel of the OLM package {NETWORK_PACKAGE}, on OpenShift.")
    driver: str | None = Field(
        None,
        description="Version of the DOCA-OFED driver image, like doca3.4.1-26.04-1.1.0.0-1; default: the "
        "nodes keep their kernel's driver.",
    )
    resources: tuple[SharedDevice, ...] = Field(
        (SharedDevice.model_validate({"resourceName": "hca", "selectors": {"vendors": (MELLANOX,)}}),),
        min_length=1,
        description="Resources that the shared device plugin announces. A container can request one of each.",
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The NicClusterPolicy; on OpenShift, after its operator."""
        if not target.is_openshift:
            return [self._policy()]
        operator = subscribed_operator(
            NETWORK_PACKAGE,
            NETWORK_NAMESPACE,
            self.channel,
            CERTIFIED,
            approval=self.approval,
            privileged=True,
        )
        return [*operator, self._policy()]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart, if there is no OLM."""
        if target.is_openshift:
            return []
        chart = self.version.removeprefix("v")
        install = f"helm upgrade --install network-operator network-operator --repo {CHARTS}"
        space = f"--namespace {NETWORK_NAMESPACE} --create-namespace"
        command = f"{install} --version {chart} {space} --set nfd.enabled=false --wait"
        return [UpstreamRelease("NVIDIA Network Operator", f"chart {chart}", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The operator must report that it is ready, and nodes must offer each resource."""
        first: list[Requirement] = (
            [operator_installed(NETWORK_PACKAGE, NETWORK_NAMESPACE)] if target.is_openshift else []
        )
        ready = ObjectStatus(
            "mellanox.com/v1alpha1", "NicClusterPolicy", "nic-cluster-policy", ("status", "state"), "ready"
        )
        return [
            *first,
            ready,
            *(NodeResource(f"{PREFIX}/{device.resourceName}") for device in self.resources),
        ]

    def _policy(self) -> Manifest:
        plugin = {
            "image": "k8s-rdma-shared-dev-plugin",
            "repository": IMAGES,
            "version": f"network-operator-{self.version}",
            "config": _config(self.resources),
        }
        driver = {"image": "doca-driver", "repository": IMAGES, "version": self.driver}
        spec = {**({"ofedDriver": driver} if self.driver else {}), "rdmaSharedDevicePlugin": plugin}
        return bare("mellanox.com/v1alpha1", "NicClusterPolicy", "nic-cluster-policy", spec=spec)


def _config(resources: tuple[SharedDevice, ...]) -> str:
    """The device plugin's own JSON, as text inside the object."""
    listed = [
        {
            **device.model_dump(exclude_defaults=True),
            "resourcePrefix": PREFIX,
            "rdmaHcaMax": device.rdmaHcaMax,
        }
        for device in resources
    ]
    return json.dumps({"periodicUpdateInterval": 300, "configList": listed}, indent=2) + "\n"

"""The NVIDIA Network Operator: InfiniBand and RoCE adapters as resources that a pod can request."""

# ruff: noqa: N815  (the device plugin's own names)

from __future__ import annotations

import json
from typing import ClassVar

from pydantic import Field, model_validator

from assay.cluster.components import olm
from assay.cluster.components.component import (
    Component,
    ComponentOptions,
    NodeResource,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.cluster.components.nfd import MELLANOX
from assay.launch.kubernetes.order import Manifest

PACKAGE = SPACE = "nvidia-network-operator"
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


class NetworkOperator(olm.SubscriptionOptions, Component):
    """NVIDIA Network Operator."""

    name: ClassVar = "network-operator"
    about: ClassVar = "NVIDIA Network Operator: InfiniBand and RoCE adapters as resources rdma/NAME"
    brings: ClassVar = ("mellanox.com",)
    sign: ClassVar = ("mellanox.com/v1alpha1", "NicClusterPolicy")

    version: str = Field("v26.4.1", description="Version of the operator and of the device plugin's image.")
    channel: str = Field("v26.4", description=f"Channel of the OLM package {PACKAGE}, on OpenShift.")
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
        operator = olm.operator(
            PACKAGE, SPACE, self.channel, olm.CERTIFIED, approval=self.approval, privileged=True
        )
        return [*operator, self._policy()]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart, if there is no OLM."""
        if target.is_openshift:
            return []
        chart = self.version.removeprefix("v")
        install = f"helm upgrade --install network-operator network-operator --repo {CHARTS}"
        space = f"--namespace {SPACE} --create-namespace"
        command = f"{install} --version {chart} {space} --set nfd.enabled=false --wait"
        return [UpstreamRelease("NVIDIA Network Operator", f"chart {chart}", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The operator must report that it is ready, and nodes must offer each resource."""
        first: list[Requirement] = [olm.installed(PACKAGE, SPACE)] if target.is_openshift else []
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

"""The NVIDIA GPU Operator: driver, container toolkit, device plugin, and metrics of every GPU node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from assay.cluster.components import olm
from assay.cluster.components.component import (
    Component,
    NodeResource,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.launch.kubernetes.order import Manifest

PACKAGE = "gpu-operator-certified"
SPACE = {"kubernetes": "gpu-operator", "openshift": "nvidia-gpu-operator"}
NAME = {
    "kubernetes": "cluster-policy",
    "openshift": "gpu-cluster-policy",
}  # the names in the chart and in OLM
REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"


class GpuOperator(olm.SubscriptionOptions, Component):
    """NVIDIA GPU Operator."""

    name: ClassVar = "gpu-operator"
    about: ClassVar = "NVIDIA GPU Operator: driver, container toolkit, device plugin, metrics"
    brings: ClassVar = ("nvidia.com",)
    sign: ClassVar = ("nvidia.com/v1", "ClusterPolicy")

    version: str = Field("v26.7.1", description="Version of the Helm chart, on Kubernetes.")
    channel: str = Field("v26.7", description=f"Channel of the OLM package {PACKAGE}, on OpenShift.")
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
        space = SPACE["openshift"]
        operator = olm.operator(
            PACKAGE, space, self.channel, olm.CERTIFIED, approval=self.approval, privileged=True
        )
        return [*operator, self._policy(target)]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart with the same settings, so that the two don't conflict."""
        if target.is_openshift:
            return []
        install = f"helm upgrade --install gpu-operator gpu-operator --repo {REPOSITORY}"
        space = f"--namespace {SPACE['kubernetes']} --create-namespace"
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
            first = [olm.installed(PACKAGE, SPACE["openshift"]), tag]
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

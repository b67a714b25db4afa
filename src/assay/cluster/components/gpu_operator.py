"""The NVIDIA GPU Operator: driver, container toolkit, device plug-in and metrics of every GPU node."""

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
NAME = {"kubernetes": "cluster-policy", "openshift": "gpu-cluster-policy"}  # as chart and OLM name it
REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"


class GpuOperator(olm.SubscriptionOptions, Component):
    """NVIDIA GPU Operator."""

    name: ClassVar = "gpu-operator"
    about: ClassVar = "NVIDIA GPU Operator: driver, container toolkit, device plug-in, metrics"
    brings: ClassVar = ("nvidia.com",)
    sign: ClassVar = ("nvidia.com/v1", "ClusterPolicy")

    version: str = Field("v26.7.1", description="Of the Helm chart, on Kubernetes.")
    channel: str = Field("v26.7", description=f"Of the OLM package {PACKAGE}, on OpenShift.")
    driver: bool = Field(True, description="false where the nodes have their own driver.")
    toolkit: bool = Field(True, description="false where the nodes have their own container toolkit.")
    kernel_modules: Literal["auto", "open", "proprietary"] | None = Field(
        None,
        description="Kind of kernel modules, by default the operator's choice; GPUDirect RDMA by DMA-BUF "
        "needs the open ones.",
    )
    peermem: bool = Field(
        False, description="Load nvidia-peermem, for kernels before 5.12 or GPUs before Turing."
    )
    mig: Literal["none", "single", "mixed"] = Field("none", description="How MIG devices are announced.")

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """The ClusterPolicy, on OpenShift after the operator that knows it."""
        if not target.is_openshift:
            return [self._policy(target)]
        space = SPACE["openshift"]
        operator = olm.operator(
            PACKAGE, space, self.channel, olm.CERTIFIED, approval=self.approval, privileged=True
        )
        return [*operator, self._policy(target)]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart with the same settings, so that nobody contradicts anybody."""
        if target.is_openshift:
            return []
        install = f"helm upgrade --install gpu-operator gpu-operator --repo {REPOSITORY}"
        space = f"--namespace {SPACE['kubernetes']} --create-namespace"
        # the part nfd brings discovery; the chart's values have the policy's own names
        values = ("nfd.enabled=false", *_flat(self._policy(target)["spec"]))
        settings = " ".join(f"--set {value}" for value in values)
        command = f"{install} --version {self.version} {space} {settings} --wait"
        return [UpstreamRelease("NVIDIA GPU Operator", f"chart {self.version}", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """That the operator calls itself ready, and that a node has GPUs to give."""
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
    """Nested settings as `helm --set` takes them."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}={str(value).lower() if isinstance(value, bool) else value}"

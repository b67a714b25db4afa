"""CPUs, memory, and devices of a pod from one NUMA node: the kubelet's CPU, topology, and memory managers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from assay.cluster.components.component import Component, NodeFile, PreparationTarget, Requirement, bare
from assay.cluster.components.machine_config import GROUP, PoolOptions, node_selector, pool_selector
from assay.launch.kubernetes.manifests import as_yaml
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.quantities import Quantity

CPUS = r"^\d+(-\d+)?(,\d+(-\d+)?)*$"
DROP_INS = "/etc/kubernetes/kubelet.conf.d"


class Numa(PoolOptions, Component):
    """NUMA alignment."""

    name: ClassVar = "numa"
    about: ClassVar = "CPU and topology manager: pods with whole CPUs get CPUs and devices of one NUMA node"

    reserved_cpus: str = Field(pattern=CPUS, description='CPUs reserved for the system, like "0-1,64-65".')
    isolated_cpus: str | None = Field(
        None,
        pattern=CPUS,
        description="The other CPUs; on OpenShift, a PerformanceProfile then also keeps interrupts off them.",
    )
    topology: Literal["single-numa-node", "restricted", "best-effort"] = "single-numa-node"
    scope: Literal["container", "pod"] = Field(
        "container", description="What must fit into one NUMA node; not for a PerformanceProfile."
    )
    reserved_memory: dict[Annotated[str, Field(pattern=r"^\d+$")], Quantity] = Field(
        default_factory=dict,
        description="NUMA node → memory reserved for the system; enables the memory manager. The sum must "
        "equal the kubelet's kubeReserved, systemReserved, and hard eviction threshold.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Numa:
        if self.isolated_cpus is not None and self.reserved_memory:
            raise ValueError(
                "reserved_memory: a PerformanceProfile sets it itself; remove it or isolated_cpus"
            )
        return self

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: a KubeletConfig, or a PerformanceProfile if isolated CPUs are set."""
        if not target.is_openshift:
            return []
        if self.isolated_cpus is None:
            selected = {
                "machineConfigPoolSelector": pool_selector(self.pool),
                "kubeletConfig": self._kubelet(),
            }
            return [bare(f"{GROUP}/v1", "KubeletConfig", f"assay-numa-{self.pool}", spec=selected)]
        profile = {
            "cpu": {"reserved": self.reserved_cpus, "isolated": self.isolated_cpus},
            "nodeSelector": node_selector(self.pool),
            "numa": {"topologyPolicy": self.topology},
        }
        return [bare("performance.openshift.io/v2", "PerformanceProfile", f"assay-{self.pool}", spec=profile)]

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Elsewhere: the kubelet's own configuration, which is in no object of the cluster."""
        if target.is_openshift:
            return []
        head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        text = f"# for a kubelet with --config-dir={DROP_INS}\n{as_yaml([{**head, **self._kubelet()}])}"
        forget = "rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state"
        then = (
            "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data",
            f"systemctl stop kubelet && {forget} && systemctl start kubelet",
            "kubectl uncordon NODE",
        )
        return [NodeFile(f"{DROP_INS}/60-assay-numa.conf", text, then)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The pool must have applied it; `assay doctor SYSTEM --deep` checks a kubelet."""
        return self.updated(target)

    def _kubelet(self) -> dict[str, Any]:
        memory = [
            {"numaNode": int(node), "limits": {"memory": amount}}
            for node, amount in sorted(self.reserved_memory.items())
        ]
        return {
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": self.reserved_cpus,
            "topologyManagerPolicy": self.topology,
            "topologyManagerScope": self.scope,
            **({"memoryManagerPolicy": "Static", "reservedMemory": memory} if memory else {}),
        }

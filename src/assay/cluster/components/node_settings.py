"""Settings of the nodes: time servers, huge pages, locked memory, and NUMA alignment.

On OpenShift the machine config operator writes them to every node of a pool. To do so, it drains and restarts
the nodes, one after the other. Elsewhere they are files for a person to write.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from assay.cluster.components.component import (
    Component,
    ComponentOptions,
    NodeFile,
    NodeResource,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    bare,
)
from assay.launch.kubernetes.fields import Quantity
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.order import Manifest

MACHINE_CONFIG_GROUP = "machineconfiguration.openshift.io"
ROLE = f"{MACHINE_CONFIG_GROUP}/role"
IGNITION = "3.4.0"
_POOL_LABEL = "pools.operator.machineconfiguration.openshift.io"
_NODE_ROLE = "node-role.kubernetes.io"


class PoolOptions(ComponentOptions):
    """Settings for a pool of nodes."""

    pool: str = Field(
        "worker", pattern="^[a-z0-9-]+$", description="MachineConfigPool, on OpenShift: its nodes restart."
    )

    def updated(self, target: PreparationTarget) -> list[Requirement]:
        """On OpenShift, every node of the pool must have applied them; elsewhere no object shows that."""
        if not target.is_openshift:
            return []
        path = ("status", "conditions", "Updated")
        return [ObjectStatus(f"{MACHINE_CONFIG_GROUP}/v1", "MachineConfigPool", self.pool, path, "True")]


def machine_config(
    name: str, pool: str, files: Mapping[str, str], arguments: tuple[str, ...] = ()
) -> Manifest:
    """A MachineConfig that writes files, with Ignition, and adds kernel arguments."""
    written = [
        {
            "path": path,
            "mode": 0o644,
            "overwrite": True,
            "contents": {"source": f"data:text/plain;charset=utf-8;base64,{_base64(text)}"},
        }
        for path, text in files.items()
    ]
    spec = {
        "config": {
            "ignition": {"version": IGNITION},
            **({"storage": {"files": written}} if written else {}),
        },
        **({"kernelArguments": list(arguments)} if arguments else {}),
    }
    manifest = bare(f"{MACHINE_CONFIG_GROUP}/v1", "MachineConfig", f"99-{pool}-assay-{name}", spec=spec)
    manifest["metadata"]["labels"] = {ROLE: pool}
    return manifest


def pool_selector(pool: str) -> Manifest:
    """How a KubeletConfig selects a pool."""
    return {"matchLabels": {f"{_POOL_LABEL}/{pool}": ""}}


def node_selector(pool: str) -> Manifest:
    """How a PerformanceProfile selects the nodes of a pool."""
    return {f"{_NODE_ROLE}/{pool}": ""}


def restarted_pool(obj: Manifest) -> str | None:
    """The pool whose nodes restart when this object is created, changed, or removed; None if none does."""
    spec = obj.get("spec", {})
    match obj["kind"]:
        case "MachineConfig":
            pool = obj["metadata"].get("labels", {}).get(ROLE)
        case "KubeletConfig":
            pool = _last(spec.get("machineConfigPoolSelector", {}).get("matchLabels", {}))
        case "PerformanceProfile":
            pool = _last(spec.get("nodeSelector", {}))
        case _:
            return None
    return pool or "unknown"


def _last(labels: Mapping[str, str]) -> str | None:
    return next((label.rpartition("/")[2] for label in labels), None)


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


CHRONY_CONF = "/etc/chrony.conf"


class Chrony(PoolOptions, Component):
    """Time servers."""

    name: ClassVar = "chrony"
    about: ClassVar = "time servers of the nodes, so that traces and logs of ranks agree"

    servers: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = Field(
        min_length=1, description="Names or addresses of time servers."
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: the file, on each node of the pool."""
        return (
            [machine_config("chrony", self.pool, {CHRONY_CONF: self._text()})] if target.is_openshift else []
        )

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Elsewhere: the file, written manually."""
        if target.is_openshift:
            return []
        text = f"# on Debian and Ubuntu: /etc/chrony/chrony.conf\n{self._text()}"
        return [NodeFile(CHRONY_CONF, text, ("systemctl restart chronyd",))]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The pool must have applied it."""
        return self.updated(target)

    def _text(self) -> str:
        servers = [f"server {name} iburst" for name in self.servers]
        rest = ["driftfile /var/lib/chrony/drift", "makestep 1.0 3", "rtcsync", "logdir /var/log/chrony"]
        return "\n".join([*servers, *rest]) + "\n"


class HugePages(PoolOptions, Component):
    """Huge pages."""

    name: ClassVar = "hugepages"
    about: ClassVar = "huge pages, reserved when a node starts"

    size: Literal["2Mi", "1Gi"] = Field(description="Page size.")
    count: int = Field(ge=1, description="Pages on each node.")

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: kernel arguments of the pool."""
        if not target.is_openshift:
            return []
        return [machine_config("hugepages", self.pool, {}, self._arguments())]

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Elsewhere: kernel arguments of each node."""
        if target.is_openshift:
            return []
        arguments = " ".join(self._arguments())
        then = (
            f"update-grub   # or, with grubby: grubby --update-kernel=ALL --args='{arguments}'",
            "reboot   # after kubectl drain NODE",
        )
        path = "/etc/default/grub.d/60-assay-hugepages.cfg"
        return [NodeFile(path, f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {arguments}"\n', then)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """Nodes must offer the pages."""
        return [*self.updated(target), NodeResource(f"hugepages-{self.size}")]

    def _arguments(self) -> tuple[str, ...]:
        size = self.size.removesuffix("i")  # the kernel's 2M is Kubernetes' 2Mi
        return (f"default_hugepagesz={size}", f"hugepagesz={size}", f"hugepages={self.count}")


class Memlock(PoolOptions, Component):
    """Unlimited locked memory."""

    name: ClassVar = "memlock"
    about: ClassVar = "no limit on locked memory in containers: without it RDMA can't register memory"

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """On OpenShift: a drop-in for CRI-O on each node of the pool."""
        if not target.is_openshift:
            return []
        text = '[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'
        return [machine_config("memlock", self.pool, {"/etc/crio/crio.conf.d/99-memlock.conf": text})]

    def node_files(self, target: PreparationTarget) -> list[NodeFile]:
        """Elsewhere: a drop-in for containerd's service, whose limit containers inherit."""
        if target.is_openshift:
            return []
        path = "/etc/systemd/system/containerd.service.d/60-assay-memlock.conf"
        then = ("systemctl daemon-reload", "systemctl restart containerd")
        return [NodeFile(path, "[Service]\nLimitMEMLOCK=infinity\n", then)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The pool must have applied it; `assay doctor SYSTEM --deep` checks a container."""
        return self.updated(target)


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
            return [
                bare(f"{MACHINE_CONFIG_GROUP}/v1", "KubeletConfig", f"assay-numa-{self.pool}", spec=selected)
            ]
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

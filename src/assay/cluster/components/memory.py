"""Memory that does not move: huge pages, and permission for containers to lock what an RDMA device reads."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from assay.cluster.components.component import (
    Component,
    NodeFile,
    NodeResource,
    PreparationTarget,
    Requirement,
)
from assay.cluster.components.machine_config import PoolOptions, machine_config
from assay.launch.kubernetes.order import Manifest


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

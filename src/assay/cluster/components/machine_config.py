"""Settings of OpenShift's nodes: objects that the machine config operator writes to every node of a pool.

To do so, it drains and restarts the nodes, one after the other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from pydantic import Field

from assay.cluster.components.component import (
    ComponentOptions,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    bare,
)
from assay.launch.kubernetes.order import Manifest

GROUP = "machineconfiguration.openshift.io"
ROLE = f"{GROUP}/role"
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
        return [ObjectStatus(f"{GROUP}/v1", "MachineConfigPool", self.pool, path, "True")]


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
    manifest = bare(f"{GROUP}/v1", "MachineConfig", f"99-{pool}-assay-{name}", spec=spec)
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

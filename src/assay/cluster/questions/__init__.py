"""The commands of `assay cluster`."""

from __future__ import annotations

from typing import Final

from assay.registry import CommandTable

COMMANDS: Final = CommandTable(
    "Grant runs on Kubernetes or OpenShift the rights they need, and prepare a cluster for them.",
    {
        "prepare": (
            "assay.cluster.questions.prepare:PrepareCluster",
            "Prepare a cluster for SYSTEM: operators, node settings, storage, and rights of its pods.",
        ),
        "openstack": (
            "assay.cluster.questions.openstack:Machines",
            "Print what creates the machines that FILE describes.",
        ),
        "smoke": (
            "assay.cluster.questions.rbac:Smoke",
            "Print the smoke-test pods of SYSTEM, which use its GPUs and RDMA devices.",
        ),
        "rbac": (
            "assay.cluster.questions.rbac:Rbac",
            "Print the ServiceAccount, Role and RoleBinding that runs on SYSTEM need.",
        ),
    },
)

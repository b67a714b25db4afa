"""Operators of jobs: of MPIJob, JobSet and TrainJob, and Kueue, in whose queue jobs wait."""

# ruff: noqa: N815  (Kueue's own names)

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from assay.cluster.components.component import (
    Component,
    DeploymentRollout,
    ObjectStatus,
    PreparationTarget,
    Requirement,
    UpstreamRelease,
    bare,
)
from assay.launch.kubernetes.fields import Quantity
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import Manifest

MPI_COMMIT = "101db144e019e1de65aaded07745e9d805c2852a"  # v0.8.0
MPI_SHA256 = "b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f"
MPI_MANIFEST = f"https://raw.githubusercontent.com/kubeflow/mpi-operator/{MPI_COMMIT}/deploy/v2beta1"


class JobOperator(Component):
    """The release of a job kind's operator, and the Deployment that it creates."""

    reference: ClassVar[UpstreamRelease]
    deployment: ClassVar[DeploymentRollout]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The same on both platforms."""
        del target
        return [self.reference]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """Its Deployment."""
        del target
        return [self.deployment]


class MPIOperator(JobOperator):
    """Kubeflow MPI Operator, from the manifest at one commit, verified by checksum."""

    name: ClassVar = "mpi-operator"
    about: ClassVar = "MPI Operator 0.8: MPIJob v2beta1, for `kind: mpijob`"
    brings: ClassVar = ("kubeflow.org",)
    sign: ClassVar = KINDS["mpijob"].job_ref[:2]
    reference: ClassVar = UpstreamRelease(
        "MPI Operator",
        f"v0.8.0, sha256 {MPI_SHA256[:12]}…",
        f"curl -fsSLO {MPI_MANIFEST}/mpi-operator.yaml "
        f"&& echo '{MPI_SHA256}  mpi-operator.yaml' | sha256sum -c "
        "&& kubectl apply --server-side -f mpi-operator.yaml",
    )
    deployment: ClassVar = DeploymentRollout("mpi-operator", "mpi-operator")


class JobSet(JobOperator):
    """JobSet, from the manifest of its release."""

    name: ClassVar = "jobset"
    about: ClassVar = "JobSet 0.12: JobSet v1alpha2, for `kind: jobset`"
    brings: ClassVar = ("jobset.x-k8s.io",)
    sign: ClassVar = KINDS["jobset"].job_ref[:2]
    reference: ClassVar = UpstreamRelease(
        "JobSet",
        "release v0.12.0",
        "kubectl apply --server-side "
        "-f https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml",
    )
    deployment: ClassVar = DeploymentRollout("jobset-system", "jobset-controller-manager")


class Trainer(JobOperator):
    """Kubeflow Trainer, from its chart without the bundled JobSet."""

    name: ClassVar = "trainer"
    about: ClassVar = "Kubeflow Trainer 2.3: TrainJob v1alpha1, for `kind: trainjob`; needs the part jobset"
    brings: ClassVar = ("trainer.kubeflow.org",)
    sign: ClassVar = KINDS["trainjob"].job_ref[:2]
    reference: ClassVar = UpstreamRelease(
        "Kubeflow Trainer",
        "chart 2.3.0",
        "helm upgrade --install kubeflow-trainer oci://ghcr.io/kubeflow/charts/kubeflow-trainer "
        "--version 2.3.0 --set jobset.install=false --set runtimes.defaultEnabled=true "
        "--namespace kubeflow-system --create-namespace --wait",
    )
    deployment: ClassVar = DeploymentRollout("kubeflow-system", "kubeflow-trainer-controller-manager")


VERSION = "kueue.x-k8s.io/v1beta2"


class Kueue(Component):
    """Kueue."""

    name: ClassVar = "kueue"
    about: ClassVar = "Kueue 0.19, and one queue with a quota for the pods' namespace"
    brings: ClassVar = ("kueue.x-k8s.io",)
    sign: ClassVar = (VERSION, "LocalQueue")

    quota: dict[str, Quantity] = Field(
        min_length=1,
        description="What jobs in the queue may use together, like {cpu: 64, nvidia.com/gpu: 8}.",
    )
    queue: str = Field("assay", description="Name of the LocalQueue, for the system's `queue`.")
    nodeLabels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the nodes to which the quota applies; default: all nodes.",
    )

    def objects(self, target: PreparationTarget) -> list[Manifest]:
        """Flavor, quota, and queue; the first two are cluster-wide, so their names contain the namespace."""
        name = f"assay-{target.namespace}"
        quotas = [{"name": resource, "nominalQuota": amount} for resource, amount in self.quota.items()]
        group = {"coveredResources": [*self.quota], "flavors": [{"name": name, "resources": quotas}]}
        spec = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": target.namespace}},
            "resourceGroups": [group],
        }
        flavor = {"nodeLabels": self.nodeLabels} if self.nodeLabels else {}
        return [
            bare(VERSION, "ResourceFlavor", name, spec=flavor),
            bare(VERSION, "ClusterQueue", name, spec=spec),
            bare(VERSION, "LocalQueue", self.queue, target.namespace, spec={"clusterQueue": name}),
        ]

    def references(self, target: PreparationTarget) -> list[UpstreamRelease]:
        """The chart."""
        del target
        chart = "oci://registry.k8s.io/kueue/charts/kueue --version 0.19.0"
        command = f"helm upgrade --install kueue {chart} --namespace kueue-system --create-namespace --wait"
        return [UpstreamRelease("Kueue", "chart 0.19.0", command)]

    def requirements(self, target: PreparationTarget) -> list[Requirement]:
        """The queue must accept jobs, as reported by Kueue."""
        active = ("status", "conditions", "Active")
        return [ObjectStatus(VERSION, "LocalQueue", self.queue, active, "True", target.namespace)]

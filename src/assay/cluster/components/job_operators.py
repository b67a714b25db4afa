"""Operators of job kinds, each by its makers' own manifests: MPIJob, JobSet, TrainJob."""

from __future__ import annotations

from typing import ClassVar

from assay.cluster.components.part import Part, Reference, Requirement, Rolled, Target

MPI_COMMIT = "101db144e019e1de65aaded07745e9d805c2852a"  # v0.8.0
MPI_SHA256 = "b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f"
MPI_MANIFEST = f"https://raw.githubusercontent.com/kubeflow/mpi-operator/{MPI_COMMIT}/deploy/v2beta1"


class MPIOperator(Part):
    """Kubeflow MPI Operator."""

    name: ClassVar = "mpi-operator"
    about: ClassVar = "MPI Operator 0.8: MPIJob v2beta1, for `kind: mpijob`"
    brings: ClassVar = ("kubeflow.org",)

    def references(self, target: Target) -> list[Reference]:
        """The manifest at one commit, held to its checksum."""
        del target
        file = "mpi-operator.yaml"
        fetch = f"curl -fsSLO {MPI_MANIFEST}/{file} && echo '{MPI_SHA256}  {file}' | sha256sum -c"
        command = f"{fetch} && kubectl apply --server-side -f {file}"
        return [Reference("MPI Operator", f"v0.8.0, sha256 {MPI_SHA256[:12]}…", command)]

    def requirements(self, target: Target) -> list[Requirement]:
        """Its Deployment."""
        del target
        return [Rolled("mpi-operator", "mpi-operator")]


class JobSet(Part):
    """JobSet."""

    name: ClassVar = "jobset"
    about: ClassVar = "JobSet 0.12: JobSet v1alpha2, for `kind: jobset`"
    brings: ClassVar = ("jobset.x-k8s.io",)

    def references(self, target: Target) -> list[Reference]:
        """The manifest of its release."""
        del target
        release = "https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
        return [Reference("JobSet", "release v0.12.0", f"kubectl apply --server-side -f {release}")]

    def requirements(self, target: Target) -> list[Requirement]:
        """Its Deployment."""
        del target
        return [Rolled("jobset-system", "jobset-controller-manager")]


class Trainer(Part):
    """Kubeflow Trainer."""

    name: ClassVar = "trainer"
    about: ClassVar = "Kubeflow Trainer 2.3: TrainJob v1alpha1, for `kind: trainjob`; needs the part jobset"
    brings: ClassVar = ("trainer.kubeflow.org",)

    def references(self, target: Target) -> list[Reference]:
        """The chart, without the JobSet that it would bring along."""
        del target
        chart = "oci://ghcr.io/kubeflow/charts/kubeflow-trainer --version 2.3.0 --set jobset.install=false"
        space = "--namespace kubeflow-system --create-namespace"
        settings = "--set runtimes.defaultEnabled=true"
        command = f"helm upgrade --install kubeflow-trainer {chart} {settings} {space} --wait"
        return [Reference("Kubeflow Trainer", "chart 2.3.0", command)]

    def requirements(self, target: Target) -> list[Requirement]:
        """Its Deployment."""
        del target
        return [Rolled("kubeflow-system", "kubeflow-trainer-controller-manager")]

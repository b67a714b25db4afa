"""`pytorchjob`: a PyTorchJob of the Kubeflow Training Operator (v1), for clusters that still have it."""

from __future__ import annotations

from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.order import Manifest, Order

CONTAINER = "pytorch"  # the operator sets MASTER_ADDR, MASTER_PORT, and RANK in the container with this name
INDEX = "RANK"  # to the operator, a pod is a rank; the keeper numbers each process


def manifest(order: Order) -> list[Manifest]:
    """The PyTorchJob: its master is worker 0."""
    several = order.workers > 1
    template = pod.template(order, env={}, node_from=INDEX if several else None, container=CONTAINER)
    replicas = {"Master": _replicas(1, template)}
    if several:
        replicas["Worker"] = _replicas(order.workers - 1, template)
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": pod.job_metadata(order),
            "spec": {
                "runPolicy": {"cleanPodPolicy": "None", **pod.job_limits(order)},
                "pytorchReplicaSpecs": replicas,
            },
        }
    ]


def _replicas(number: int, template: Manifest) -> Manifest:
    return {"replicas": number, "restartPolicy": "Never", "template": template}


KIND = JobKind(
    name="pytorchjob",
    job_ref=JobRef("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    manifest=manifest,
    ended=lambda obj: ended_by_condition(obj, "Succeeded", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="the Kubeflow Training Operator",
)

"""`job`: an Indexed Job with a headless Service, which gives the pods names."""

from __future__ import annotations

from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.order import Manifest, Order, labels_of_ranks

INDEX = "JOB_COMPLETION_INDEX"  # set by the Job controller in each container


def manifest(order: Order) -> list[Manifest]:
    """Service, then Job."""
    return [service(order), _job(order)]


def service(order: Order) -> Manifest:
    """The Service that gives each pod a name, ready or not, since ranks meet before pods are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": order.metadata(),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels_of_ranks(order.job.token),
        },
    }


def _job(order: Order) -> Manifest:
    env = {"MASTER_ADDR": f"{order.name}-0.{order.name}", "MASTER_PORT": str(order.meeting_port)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod.job_metadata(order),
        "spec": {
            "completionMode": "Indexed",
            "completions": order.workers,
            "parallelism": order.workers,
            **pod.job_limits(order),
            "template": pod.template(order, env=env, node_from=INDEX, subdomain=order.name),
        },
    }


KIND = JobKind(
    name="job",
    job_ref=JobRef("batch/v1", "Job", "jobs"),
    manifest=manifest,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda shape: shape.workers,
)

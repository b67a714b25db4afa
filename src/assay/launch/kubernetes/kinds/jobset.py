"""`jobset`: a JobSet of one Indexed Job; it makes the headless Service itself."""

from __future__ import annotations

from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.job import INDEX
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.order import Manifest, Order

RANKS = "ranks"


def manifest(order: Order) -> list[Manifest]:
    """The JobSet."""
    env = {"MASTER_ADDR": f"{order.name}-{RANKS}-0-0.{order.name}", "MASTER_PORT": str(order.meeting_port)}
    limits = pod.job_limits(order)
    ttl = limits.pop("ttlSecondsAfterFinished")  # on the set: its Job goes with it
    job = {
        "completionMode": "Indexed",
        "completions": order.workers,
        "parallelism": order.workers,
        **limits,
        "template": pod.template(order, env=env, node_from=INDEX),
    }
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": pod.job_metadata(order),
            "spec": {
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "failurePolicy": {"maxRestarts": 0},
                "ttlSecondsAfterFinished": ttl,
                "replicatedJobs": [{"name": RANKS, "replicas": 1, "template": {"spec": job}}],
            },
        }
    ]


KIND = JobKind(
    name="jobset",
    job_ref=JobRef("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    manifest=manifest,
    ended=lambda obj: ended_by_condition(obj, "Completed", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="JobSet",
)

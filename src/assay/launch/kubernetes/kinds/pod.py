"""`pod`: a Job with one pod, for shapes of one worker."""

from __future__ import annotations

from assay.errors import InputError
from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.kind import JobRef, Kind, ended_by_condition
from assay.launch.kubernetes.order import Manifest, Order


def manifest(order: Order) -> list[Manifest]:
    """The Job. Raises InputError for a shape of several workers."""
    if order.workers > 1:
        raise InputError(
            f"{order.job.trial_id}: shape {order.job.shape} has {order.workers} workers and kind pod "
            f"is one pod: write kind: job, or shape 1x{order.job.shape.ranks}"
        )
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": pod.job_metadata(order),
            "spec": {**pod.job_limits(order), "template": pod.template(order, env={}, node_from=None)},
        }
    ]


KIND = Kind(
    name="pod",
    job_ref=JobRef("batch/v1", "Job", "jobs"),
    manifest=manifest,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda _shape: 1,
)

"""`pod`: a Job with one pod, for shapes of one worker."""

from __future__ import annotations

from collections.abc import Iterator

from assay.errors import Problem
from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.order import Manifest, Order


def manifest(order: Order) -> list[Manifest]:
    """The Job."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": pod.job_metadata(order),
            "spec": {**pod.job_limits(order), "template": pod.template(order, env={}, node_from=None)},
        }
    ]


def misfits(order: Order) -> Iterator[Problem]:
    """Reports the kind itself for a shape of several workers."""
    shape = order.job.shape
    if order.workers > 1:
        yield Problem(
            "kind",
            f"shape {shape} has {order.workers} workers, but kind pod is one pod: "
            f"write kind: job, or shape 1x{shape.ranks}",
        )


KIND = JobKind(
    name="pod",
    job_ref=JobRef("batch/v1", "Job", "jobs"),
    manifest=manifest,
    misfits=misfits,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda _shape: 1,
)

"""The container of a pod that runs ranks, among those that a webhook or the system's `patch` adds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.launch.kubernetes.payload import PROGRAM_DIR

Object = Mapping[str, Any]


def rank_container(pod: Object) -> str:
    """The name of the container that mounts the programs sent with the job; kinds name it differently."""
    containers = pod["spec"]["containers"]
    return str(next(filter(_mounts_programs, containers), containers[0])["name"])


def rank_status(pod: Object) -> Object:
    """What the kubelet reports about that container; empty before it reports anything."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == rank_container(pod)), {})


def has_begun(pod: Object) -> bool:
    """Whether that container runs or ran, so that it has a log."""
    return not rank_status(pod).get("state", {}).keys().isdisjoint(("running", "terminated"))


def _mounts_programs(container: Object) -> bool:
    return any(mount["mountPath"] == PROGRAM_DIR for mount in container.get("volumeMounts", ()))

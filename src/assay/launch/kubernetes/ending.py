"""How a job is ended early: delete its object, then wait until none of its pods runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from assay.errors import LaunchError
from assay.launch.kubernetes.client import PODS, Cluster, Object, Resource
from assay.launch.kubernetes.finalizers import foreign
from assay.launch.kubernetes.job_state import call, is_out_of_reach, is_over
from assay.launch.kubernetes.kinds import JobKind
from assay.launch.kubernetes.order import name_of
from assay.launch.kubernetes.watch import watch_of

END_SLACK_S = (
    120.0  # beyond the grace time: for the kubelet, the garbage collector, a server that was unavailable
)
TAKE_UP_S = 10.0  # after this, a controller counts as not working
PAUSES_S = (0.1, 0.1, 0.2, 0.3, 0.5)  # or less: until a pod changes


def end(cluster: Cluster, kind: JobKind, token: str, *, pods: int, grace_s: float) -> None:
    """Delete the job object and wait until none of its pods runs, and none will.

    A pod on an unresponsive node can't report that it ended; it is force-deleted from the API server. What
    finalizers keep after that runs nothing. The pods come from the one watch: many jobs may be ended at once.
    Raises LaunchError if something still runs long after the grace time.
    """
    resource, name = Resource(kind.job_ref.api_version, kind.job_ref.plural), name_of(token)
    changed = threading.Event()
    with watch_of(cluster).follow(token, changed.set) as watched:
        _wait_until_taken_up(cluster, kind, token, lambda: len(watched.seen) >= pods)
        cluster.delete(resource, name, wait=kind.heeds_deletion)
        give_up, tries = time.monotonic() + grace_s + END_SLACK_S, 0
        while True:
            changed.clear()
            running = _running(cluster, watched.left())
            if not running and _starts_nothing(kind, cluster.find(resource, name), watched.left()):
                running = _running(cluster, cluster.list(PODS, labels=kind.pods(token)).items)  # to be sure
                if not running:
                    return
            if time.monotonic() > give_up:
                still = ", ".join(map(call, running)) or f"its object {name}"
                raise LaunchError(
                    f"job {token} can't be ended: {still} still exists; "
                    f"check it: kubectl -n {cluster.namespace} get pods -l {kind.pods(token)}"
                )
            changed.wait(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
            tries += 1


def _running(cluster: Cluster, pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if not is_over(pod) and not _force_deleted(cluster, pod)]


def _force_deleted(cluster: Cluster, pod: Object) -> bool:
    """Whether a pod's node is unresponsive, so that the pod was deleted without its word."""
    if not is_out_of_reach(pod):
        return False
    left = cluster.delete(PODS, pod["metadata"]["name"], grace_s=0)
    return left is None or bool(foreign(left))


def _starts_nothing(kind: JobKind, job: Object | None, pods: Sequence[Object]) -> bool:
    """Whether the deleted job object is gone, or only finalizers keep it, and its controller heeds that."""
    return job is None or (kind.heeds_deletion and any(map(foreign, (job, *pods))))


def _wait_until_taken_up(
    cluster: Cluster, kind: JobKind, token: str, has_its_pods: Callable[[], bool]
) -> None:
    """Wait for a controller that is about to create pods: it would create them after its job is gone.

    The cluster removes those too, but the pods would start running first.
    """
    resource, give_up = Resource(kind.job_ref.api_version, kind.job_ref.plural), time.monotonic() + TAKE_UP_S
    while time.monotonic() < give_up and not has_its_pods():
        job_object = cluster.find(resource, name_of(token))
        if job_object is None:
            return
        if kind.heeds_deletion and job_object.get("status"):  # written when its objects are created
            return
        time.sleep(PAUSES_S[0])

"""How a job is ended before its time: its object is deleted, and one waits until none of its pods is left."""

from __future__ import annotations

import time

from assay.errors import LaunchError
from assay.launch.kubernetes.client import PODS, Cluster, Resource
from assay.launch.kubernetes.job_state import call, is_out_of_reach, is_over
from assay.launch.kubernetes.kinds import JobKind
from assay.launch.kubernetes.order import name_of

END_SLACK_S = 120.0  # beyond the grace time: the kubelet's own, the collector's, a server that was just away
TAKE_UP_S = 10.0  # beyond which a controller is taken not to work
PAUSES_S = (0.1, 0.1, 0.2, 0.3, 0.5)


def end(cluster: Cluster, kind: JobKind, token: str, *, pods: int, grace_s: float) -> None:
    """Delete the job object and wait until none of its pods is left.

    A pod whose node does not answer can't say that it has ended; it is struck off the cluster's books.
    Raises LaunchError where something is still there long after the grace time.
    """
    resource, name = Resource(kind.job_ref.api_version, kind.job_ref.plural), name_of(token)
    _wait_until_taken_up(cluster, kind, token, pods)
    cluster.delete(resource, name, wait=kind.heeds_deletion)
    give_up, tries = time.monotonic() + grace_s + END_SLACK_S, 0
    while True:
        left = cluster.list(PODS, labels=kind.pods(token)).items
        if not left and cluster.find(resource, name) is None:
            return
        for pod in left:
            if is_out_of_reach(pod):
                cluster.delete(PODS, pod["metadata"]["name"], grace_s=0)
        if time.monotonic() > give_up:
            still = ", ".join(call(pod) for pod in left if not is_over(pod)) or f"its object {name}"
            raise LaunchError(
                f"job {token} can't be ended: {still} is still there; "
                f"look at it: kubectl -n {cluster.namespace} get pods -l {kind.pods(token)}"
            )
        time.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
        tries += 1


def _wait_until_taken_up(cluster: Cluster, kind: JobKind, token: str, pods: int) -> None:
    """A controller that is about to make what leads to pods would make it after its job is gone.

    The cluster removes that too, but the pods would begin to run first.
    """
    resource, give_up = Resource(kind.job_ref.api_version, kind.job_ref.plural), time.monotonic() + TAKE_UP_S
    while time.monotonic() < give_up:
        found = cluster.find(resource, name_of(token))
        if found is None:
            return
        if kind.heeds_deletion and found.get("status"):  # written when what belongs to it is made
            return
        if len(cluster.list(PODS, labels=kind.pods(token)).items) >= pods:
            return
        time.sleep(PAUSES_S[0])

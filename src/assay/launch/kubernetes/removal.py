"""How jobs are ended early, and how what they left in a cluster is found by label and removed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from assay.errors import LaunchError
from assay.launch.kubernetes.client import CONFIG_MAPS, PODS, SERVICES, Cluster, Object, Resource
from assay.launch.kubernetes.job_state import call, is_out_of_reach, is_over
from assay.launch.kubernetes.objects.kinds import KINDS, Ending, JobKind
from assay.launch.kubernetes.objects.order import LABEL_TOKEN, MANAGED_BY, name_of
from assay.launch.kubernetes.pod_status import moment
from assay.launch.kubernetes.watch import watch_of
from assay.launch.kubernetes.wire import FORBIDDEN, ApiError
from assay.launch.launcher import Leftover

_THE_CLUSTERS_OWN = {"foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"}
_MOST_SHOWN = 4
END_SLACK_S = (
    120.0  # beyond the grace time: for the kubelet, the garbage collector, a server that was unavailable
)
TAKE_UP_S = 10.0  # after this, a controller counts as not working
PAUSES_S = (0.1, 0.1, 0.2, 0.3, 0.5)  # or less: until a pod changes
SELECTOR = ",".join([*(f"{name}={value}" for name, value in MANAGED_BY.items()), LABEL_TOKEN])
AT_ONCE = 8  # requests
END_S, LOOK_EVERY_S = 60.0, 0.5
VANISH_S = 10.0  # from the end of the last pod until the cluster has removed its objects


def foreign_finalizers(obj: Object) -> str:
    """An object's finalizers that the cluster's own controllers don't remove, as text; "" without any."""
    return ", ".join(sorted(set(obj["metadata"].get("finalizers", ())) - _THE_CLUSTERS_OWN))


def what_stays(objects: Mapping[str, Object]) -> str:
    """Which of these deleted objects, by name, finalizers keep; "" if none.

    >>> what_stays({"job assay-1f": {"metadata": {"finalizers": ["example.com/hold"]}}})
    'deleted, but kept by finalizers: job assay-1f (example.com/hold); whoever set them must remove them'
    """
    held = [
        f"{name} ({finalizers})" for name, obj in objects.items() if (finalizers := foreign_finalizers(obj))
    ]
    if not held:
        return ""
    more = f" and {len(held) - _MOST_SHOWN} more" if len(held) > _MOST_SHOWN else ""
    shown = f"{', '.join(held[:_MOST_SHOWN])}{more}"
    return f"deleted, but kept by finalizers: {shown}; whoever set them must remove them"


def end_job(cluster: Cluster, kind: JobKind, token: str, *, pods: int, grace_s: float) -> None:
    """Delete the job object and wait until none of its pods runs, and none will.

    A pod on an unresponsive node can't report that it ended; it is force-deleted from the API server. What
    finalizers keep after that runs nothing. The pods come from the one watch: many jobs may be ended at once.
    Raises LaunchError if something still runs long after the grace time.
    """
    resource, name = Resource(kind.job_ref.api_version, kind.job_ref.plural), name_of(token)
    changed, watch = threading.Event(), watch_of(cluster)

    def listed() -> list[Object]:
        return cluster.list(PODS, labels=kind.pods(token)).items

    with watch.follow(token, changed.set) as watched:
        _wait_until_taken_up(cluster, kind, token, lambda: len(watched.seen) >= pods)
        cluster.delete(resource, name, wait=kind.heeds_deletion)
        give_up, tries = time.monotonic() + grace_s + END_SLACK_S, 0
        while True:
            changed.clear()
            left = watched.left() if watch.refused is None else listed()
            running = _running(cluster, left)
            if not running and _starts_nothing(kind, cluster.find(resource, name), left):
                running = _running(cluster, listed())  # to be sure
                if not running:
                    return
            if time.monotonic() > give_up:
                still = ", ".join(map(call, running)) or f"its object {name}"
                names = " ".join(["pods", *(pod["metadata"]["name"] for pod in running)])
                raise LaunchError(
                    f"job {token} can't be ended: {still} still exists; check it: "
                    f"kubectl -n {cluster.namespace} get {names if running else f'{resource.plural} {name}'}"
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
    return left is None or bool(foreign_finalizers(left))


def _starts_nothing(kind: JobKind, job: Object | None, pods: Sequence[Object]) -> bool:
    """Whether the deleted job object is gone, or only finalizers keep it, and its controller heeds that."""
    return job is None or (kind.heeds_deletion and any(map(foreign_finalizers, (job, *pods))))


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


def leftovers(cluster: Cluster) -> list[Leftover]:
    """One entry per token. Raises LaunchError if one of the kinds may not be listed."""
    by_token: defaultdict[str, list[tuple[Resource, Object]]] = defaultdict(list)
    for resource, objects in _objects(cluster):
        for obj in objects:
            by_token[obj["metadata"]["labels"][LABEL_TOKEN]].append((resource, obj))
    endings = {Resource(k.job_ref.api_version, k.job_ref.plural): k.ended for k in KINDS.values()}
    return [_leftover(token, objects, endings) for token, objects in sorted(by_token.items())]


def discard(cluster: Cluster, tokens: Collection[str], grace_s: float) -> None:
    """Delete the objects of these jobs; return when none of their pods is left.

    grace_s  how long pods may take to end

    Raises LaunchError if pods don't end, or finalizers keep something.
    """
    job_tokens = frozenset(tokens)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        doomed = [
            (resource, obj["metadata"]["name"]) for resource, obj in _objects_of_jobs(job_tokens, cluster)
        ]
        for gone in [threads.submit(cluster.delete, resource, name) for resource, name in doomed]:
            gone.result()
    _wait_for_pods(cluster, job_tokens, grace_s + END_S)
    give_up = time.monotonic() + VANISH_S
    while message := what_stays(
        {_called(resource, obj): obj for resource, obj in _objects_of_jobs(job_tokens, cluster)}
    ):
        if time.monotonic() > give_up:
            raise LaunchError(message)
        time.sleep(LOOK_EVERY_S)


def _objects_of_jobs(tokens: Collection[str], cluster: Cluster) -> list[tuple[Resource, Object]]:
    """The objects of these jobs."""
    return [
        (resource, obj)
        for resource, objects in _objects(cluster)
        for obj in objects
        if obj["metadata"]["labels"][LABEL_TOKEN] in tokens
    ]


def _objects(cluster: Cluster) -> Iterator[tuple[Resource, list[Object]]]:
    """Job objects first, pods last: owners go before what they own.

    Raises LaunchError with every kind that may not be listed, after yielding those that may.
    """
    offered = dict.fromkeys(kind.job_ref for kind in KINDS.values())
    jobs = [Resource(r.api_version, r.plural) for r in offered if r.kind in cluster.kinds(r.api_version)]
    refused: list[ApiError] = []
    for resource in (*jobs, CONFIG_MAPS, SERVICES, PODS):
        carries = resource == CONFIG_MAPS  # programs and files, whose contents don't matter here
        try:
            yield resource, cluster.list(resource, labels=SELECTOR, only_metadata=carries).items
        except ApiError as error:
            if error.code != FORBIDDEN:
                raise
            refused.append(error)
    if refused:
        raise LaunchError("\n".join(map(str, refused)))


def _leftover(
    token: str,
    objects: Iterable[tuple[Resource, Object]],
    endings: Mapping[Resource, Callable[[Mapping[str, Any]], Ending | None]],
) -> Leftover:
    what, moments, runs, forgotten = [], list[float](), False, False
    for resource, obj in objects:
        deleted = "deletionTimestamp" in obj["metadata"]
        kept = f" (deleted, kept by {foreign_finalizers(obj)})" if deleted and foreign_finalizers(obj) else ""
        what.append(_called(resource, obj) + kept)
        forgotten |= deleted and resource != PODS  # nobody collects it any more
        moments += [timestamp for timestamp in map(moment, _stamps(obj)) if timestamp is not None]
        if resource in endings:
            runs |= not deleted and endings[resource](obj) is None
        elif resource == PODS:
            runs |= not is_over(obj)
    return Leftover(token, tuple(what), runs, None if forgotten else max(moments, default=None))


def _called(resource: Resource, obj: Object) -> str:
    return f"{resource.plural.removesuffix('s')} {obj['metadata']['name']}"


def _stamps(obj: Object) -> Iterator[str | None]:
    yield obj["metadata"].get("creationTimestamp")
    for condition in obj.get("status", {}).get("conditions") or ():
        yield condition.get("lastTransitionTime")


def _wait_for_pods(cluster: Cluster, tokens: frozenset[str], patience_s: float) -> None:
    give_up = time.monotonic() + patience_s
    while True:
        pods = cluster.list(PODS, labels=SELECTOR).items
        ours = [pod for pod in pods if pod["metadata"]["labels"][LABEL_TOKEN] in tokens]
        left = [pod["metadata"]["name"] for pod in ours if not (is_over(pod) and foreign_finalizers(pod))]
        if not left:
            return
        if time.monotonic() > give_up:
            some = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise LaunchError(
                f"pods do not end: {some}; an unresponsive node holds them: "
                f"kubectl -n {cluster.namespace} get pods -l {SELECTOR} -o wide"
            )
        time.sleep(LOOK_EVERY_S)

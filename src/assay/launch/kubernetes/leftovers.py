"""What Assay's jobs left in a cluster, found by label, and its removal."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from assay.errors import LaunchError
from assay.launch.kubernetes.client import CONFIG_MAPS, PODS, SERVICES, Cluster, Object, Resource
from assay.launch.kubernetes.finalizers import foreign, what_stays
from assay.launch.kubernetes.job_state import is_over
from assay.launch.kubernetes.kinds import KINDS
from assay.launch.kubernetes.kinds.kind import Ending
from assay.launch.kubernetes.order import LABEL_TOKEN, MANAGED_BY
from assay.launch.kubernetes.refusals import FORBIDDEN, ApiError
from assay.launch.kubernetes.times import moment
from assay.launch.launcher import Leftover

SELECTOR = ",".join([*(f"{name}={value}" for name, value in MANAGED_BY.items()), LABEL_TOKEN])
AT_ONCE = 8  # requests
END_S, LOOK_EVERY_S = 60.0, 0.5
VANISH_S = 10.0  # from the end of the last pod until the cluster has removed its objects


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
        kept = f" (deleted, kept by {foreign(obj)})" if deleted and foreign(obj) else ""
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
        left = [pod["metadata"]["name"] for pod in ours if not (is_over(pod) and foreign(pod))]
        if not left:
            return
        if time.monotonic() > give_up:
            some = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise LaunchError(
                f"pods do not end: {some}; an unresponsive node holds them: "
                f"kubectl -n {cluster.namespace} get pods -l {SELECTOR} -o wide"
            )
        time.sleep(LOOK_EVERY_S)

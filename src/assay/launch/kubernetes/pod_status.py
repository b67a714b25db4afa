"""What a cluster reports about a job's pods: the container that runs ranks, times, and facts of its nodes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from assay.launch.kubernetes.client import EVENTS, NODES, Cluster, Resource
from assay.launch.kubernetes.objects.payload import PROGRAM_DIR
from assay.launch.kubernetes.wire import ApiError
from assay.records import Scalar

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


def moment(stamp: str | None) -> float | None:
    """A time of the API, `2026-11-21T08:00:00Z`, in seconds since the epoch; None if there is none."""
    return None if not stamp else datetime.fromisoformat(stamp).timestamp()


def deleted_at(obj: Object) -> float | None:
    """When an object's deletion was first requested, in seconds since the epoch; None if that is unknown.

    True of the object right after that: when its grace time is cut short, the API server changes both fields.
    """
    ends_at = moment(obj["metadata"].get("deletionTimestamp"))
    return None if ends_at is None else ends_at - obj["metadata"].get("deletionGracePeriodSeconds", 0)


def phase_times(pod: Object, events: Iterable[Object], ranks_at: float | None) -> dict[str, float]:
    """Seconds that a pod spent until its ranks ran: `queue_s`, `pull_s`, `start_s`; absent where unknown.

    queue  from its creation until a node was found
    pull   while its image was pulled; 0 if the node already had it
    start  from then until the ranks ran: volumes, sandbox, container, keeper, probe

    The API reports whole seconds, so each is exact to a second.
    """
    created = moment(pod["metadata"].get("creationTimestamp"))
    conditions = {c["type"]: c for c in pod.get("status", {}).get("conditions", ())}
    placed = conditions.get("PodScheduled", {})
    placed_at = moment(placed.get("lastTransitionTime")) if placed.get("status") == "True" else None
    phases: dict[str, float] = {}
    if created is not None and placed_at is not None:
        phases["queue_s"] = max(placed_at - created, 0.0)
    pulled_s = _pull_s(pod["metadata"]["uid"], events)
    if pulled_s is not None:
        phases["pull_s"] = pulled_s
    if placed_at is not None and ranks_at is not None:
        phases["start_s"] = round(max(ranks_at - placed_at - (pulled_s or 0.0), 0.0), 3)
    return phases


def _pull_s(uid: str, events: Iterable[Object]) -> float | None:
    begun = ended = None
    for event in events:
        if event["involvedObject"].get("uid") != uid:
            continue
        occurred_at = moment(event.get("firstTimestamp") or event.get("eventTime"))
        if event["reason"] == "Pulling":
            begun = occurred_at
        elif event["reason"] == "Pulled":
            if "already present" in event.get("message", ""):
                return 0.0
            ended = occurred_at
    return None if begun is None or ended is None else max(ended - begun, 0.0)


VERSIONS = Resource("config.openshift.io/v1", "clusterversions")
DAEMONS = Resource("apps/v1", "daemonsets")
OF_DEVICES = re.compile(
    r"device-plugin|gpu-operator|network-operator|rdma|sriov|gpu-feature|driver-daemonset"
)


def facts_by_probe(
    cluster: Cluster, pods: Mapping[str, Object], ends: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Scalar]]:
    """Facts of each pod whose probe reported, by its stream: `probe-0` → facts.

    What this user may not read is left out and listed in `kubernetes.unreadable`.
    """
    whole = _of_cluster(cluster)
    return {
        probe: {
            **whole,
            **of_pod(pod),
            **_of_node(cluster, pod["spec"]["nodeName"]),
            **_times(cluster, pod, ends),
        }
        for probe, pod in pods.items()
    }


def of_pod(pod: Object) -> dict[str, Scalar]:
    """Facts from the pod itself."""
    facts: dict[str, Scalar] = {
        "kubernetes.pod": pod["metadata"]["name"],
        "kubernetes.node": pod["spec"]["nodeName"],
        "kubernetes.namespace": pod["metadata"]["namespace"],
        "kubernetes.qos": pod["status"].get("qosClass"),
        "kubernetes.scheduler": pod["spec"].get("schedulerName"),
        "kubernetes.runtime_class": pod["spec"].get("runtimeClassName"),
        "kubernetes.priority": pod["spec"].get("priority"),
    }
    status = rank_status(pod)
    facts |= {"kubernetes.image": status.get("image"), "kubernetes.image_id": status.get("imageID")}
    return {name: value for name, value in facts.items() if value not in (None, "")}


def of_node(node: Object) -> dict[str, Scalar]:
    """Facts from a node's object: labels, versions, resources."""
    info = node["status"]["nodeInfo"]
    facts: dict[str, Scalar] = {
        "kubernetes.kubelet": info["kubeletVersion"],
        "kubernetes.container_runtime": info["containerRuntimeVersion"],
        "kubernetes.os_image": info["osImage"],
    }
    for name, value in node["metadata"].get("labels", {}).items():
        facts[f"kubernetes.label.{name.replace('/', ':')}"] = value
    for name, amount in node["status"].get("allocatable", {}).items():
        facts[f"kubernetes.allocatable.{name.replace('/', ':')}"] = amount
    taints = [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", ())]
    return {**facts, **({"kubernetes.taints": ", ".join(taints)} if taints else {})}


@functools.lru_cache(maxsize=64)
def _of_cluster(cluster: Cluster) -> Mapping[str, Scalar]:
    """Facts of the whole cluster, queried once."""
    facts: dict[str, Scalar] = {"kubernetes.version": cluster.version()}
    if "config.openshift.io" in cluster.groups():
        try:
            history = cluster.get(VERSIONS, "version", everywhere=True)["status"]["history"]
            facts["openshift.version"] = history[0]["version"]
        except (ApiError, KeyError, IndexError) as error:
            facts["openshift.unreadable"] = str(error)
    try:
        daemons = cluster.list(DAEMONS, everywhere=True).items
    except ApiError as error:
        return {**facts, "kubernetes.unreadable": str(error)}
    for daemon in daemons:
        images = [container["image"] for container in daemon["spec"]["template"]["spec"]["containers"]]
        if OF_DEVICES.search(" ".join((daemon["metadata"]["name"], *images))):
            facts[f"kubernetes.daemon.{daemon['metadata']['name']}"] = ", ".join(images)
    return facts


@functools.lru_cache(maxsize=4096)
def _of_node(cluster: Cluster, name: str) -> Mapping[str, Scalar]:
    """Facts of a node, queried once: its labels don't change during a suite."""
    try:
        return of_node(cluster.get(NODES, name, everywhere=True))
    except ApiError as error:
        return {"kubernetes.node_unreadable": str(error)}


def _times(cluster: Cluster, pod: Object, ends: Sequence[Mapping[str, Any]]) -> dict[str, Scalar]:
    """How long it waited, pulled, and started. The ranks' start is by the node's clock."""
    ranks_at = min((end["started_at"] for end in ends if end["started_at"]), default=None)
    about = f"involvedObject.uid={pod['metadata']['uid']}"
    try:
        events = cluster.list(EVENTS, fields=about).items
    except ApiError as error:
        return {"kubernetes.events_unreadable": str(error)}
    return {f"kubernetes.{name}": value for name, value in phase_times(pod, events, ranks_at).items()}

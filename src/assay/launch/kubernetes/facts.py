"""What a cluster reports about where a job ran, as facts of its nodes in addition to the probe's."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.launch.kubernetes.client import EVENTS, NODES, Cluster, Object, Resource
from assay.launch.kubernetes.pod_status import phase_times, rank_status
from assay.launch.kubernetes.wire import ApiError
from assay.records import Scalar

VERSIONS = Resource("config.openshift.io/v1", "clusterversions")
DAEMONS = Resource("apps/v1", "daemonsets")
OF_DEVICES = re.compile(
    r"device-plugin|gpu-operator|network-operator|rdma|sriov|gpu-feature|driver-daemonset"
)


def by_probe(
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

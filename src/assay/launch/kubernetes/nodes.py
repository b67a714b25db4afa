"""The nodes that a system's pods may run on, whose pods are there, and how pods are kept off slow nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from assay.errors import InputError
from assay.launch.kubernetes.client import NODES, PODS, Cluster, Object, connect
from assay.launch.kubernetes.doctor.checks import STILL_THERE
from assay.launch.kubernetes.doctor.cluster_view import GRANT
from assay.launch.kubernetes.doctor.node_checks import away, is_device, unsuited
from assay.launch.kubernetes.fields import quantity_number
from assay.launch.kubernetes.objects.order import LABEL_TOKEN
from assay.launch.kubernetes.objects.pod import REQUIRED, meets
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.wire import ApiError
from assay.launch.platform import KeepOffMethod, Losses, Member, NodeQuery, chosen

LITTLE_CPU = 0.5  # CPUs that others may have requested on a node that still counts as idle,
LITTLE_SHARE = 0.05  # or this share of the node's CPUs, if that is more
_EVERYWHERE = {"DaemonSet", "Node"}  # owners of pods that each node has, busy or not
SLOW_KEY = "assay.dev/slow"  # key of labels and taints
_MOST_LETTERS = 63  # in a label's value


def members(system: KubernetesSystem, query: NodeQuery) -> list[Member]:
    """The nodes by name. Raises InputError if a permission is missing, ApiError if nothing responds."""
    cluster = connect(system.context, system.namespace)
    named, idle = query.named or system.nodes, query.idle
    try:
        nodes = cluster.list(NODES, everywhere=True).items
    except ApiError as error:
        if error.code != 403:
            raise
        if named and not idle:
            return [Member(name) for name in named]
        raise InputError(
            "can't find out which nodes exist: this user may not list nodes. Name them with --nodes "
            f"(without --idle), or grant the permission: {GRANT}"
        ) from None
    own = {node["metadata"]["name"]: node for node in nodes if suits(node, system)}
    used = _used(cluster, own) if idle else {}
    return [
        Member(name, away(own[name], system), used.get(name, ""), own[name]["metadata"].get("labels", {}))
        for name in sorted(chosen(own, named))
    ]


def suits(node: Object, system: KubernetesSystem) -> bool:
    """Whether the system's pods may ever run on a node, by its labels, its taints, and the affinity."""
    required = (system.affinity.nodeAffinity or {}).get(REQUIRED)
    return not unsuited(node, system) and (required is None or _any_term(node, required))


def _used(cluster: Cluster, nodes: Mapping[str, Object]) -> dict[str, str]:
    """Why nodes are not idle, by node: pods with devices, or with more than a little CPU."""
    try:
        pods = cluster.list(PODS, fields=STILL_THERE, everywhere=True).items
    except ApiError as error:
        if error.code != 403:
            raise
        raise InputError(
            "--idle: this user may not list pods in all namespaces, so it is unknown who uses a node: "
            f"{GRANT}"
        ) from None
    there: dict[str, list[Object]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in nodes and not is_ours(pod, cluster.namespace):
            there.setdefault(node, []).append(pod)
    return {name: usage for name, others_pods in there.items() if (usage := use(nodes[name], others_pods))}


def is_ours(pod: Object, namespace: str) -> bool:
    """Whether a pod is Assay's, in this namespace: of this same sweep, resumed."""
    about = pod["metadata"]
    return about["namespace"] == namespace and LABEL_TOKEN in about.get("labels", {})


def use(node: Object, pods: Iterable[Object]) -> str:
    """What others' pods requested on a node, as text; "" if it is little enough."""
    cpus = 0.0
    for pod in pods:
        called = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        requests = [
            container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]
        ]
        if devices := sorted({name for request in requests for name in request if is_device(name)}):
            return f"{called} has {', '.join(devices)}"
        if not _EVERYWHERE & {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())}:
            cpus += sum(quantity_number(request["cpu"]) for request in requests if "cpu" in request)
    offered = quantity_number(node["status"].get("allocatable", {}).get("cpu", "0"))
    little = max(LITTLE_CPU, LITTLE_SHARE * offered)
    return f"others' pods have {cpus:g} of {offered:g} CPUs" if cpus > little else ""


def _any_term(node: Object, required: Mapping[str, list[Object]]) -> bool:
    """Whether one of the terms matches. Source: kubernetes.io/docs/concepts/scheduling-eviction/
    assign-pod-node, node affinity: terms are alternatives, an empty one matches nothing.
    """
    labels, fields = node["metadata"].get("labels", {}), {"metadata.name": node["metadata"]["name"]}
    for term in required.get("nodeSelectorTerms", ()):
        requirements = [(labels, requirement) for requirement in term.get("matchExpressions", ())]
        requirements += [(fields, requirement) for requirement in term.get("matchFields", ())]
        if requirements and all(
            meets(attributes.get(requirement["key"]), requirement) for attributes, requirement in requirements
        ):
            return True
    return False


def keep_off_methods(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> tuple[KeepOffMethod, ...]:
    """Labels, taints, and cordons, each with the command that undoes it."""
    context = definition.get("context")

    def kubectl(*arguments: str) -> str:
        return shlex.join(["kubectl", *(["--context", context] if context else []), *arguments])

    pairs = {node: f"{SLOW_KEY}={_slow_label(losses)}" for node, losses in slow.items()}
    return (
        KeepOffMethod(
            "labels",
            "for a job's nodeAffinity to avoid",
            tuple(kubectl("label", "node", "--overwrite", node, pair) for node, pair in pairs.items()),
            tuple(kubectl("label", "node", node, f"{SLOW_KEY}-") for node in slow),
        ),
        KeepOffMethod(
            "taints",
            "pods go elsewhere while there is room",
            tuple(
                kubectl("taint", "node", "--overwrite", node, f"{pair}:PreferNoSchedule")
                for node, pair in pairs.items()
            ),
            tuple(kubectl("taint", "node", node, f"{SLOW_KEY}:PreferNoSchedule-") for node in slow),
        ),
        KeepOffMethod(
            "drain",
            "no new pods; running pods stay",
            tuple(kubectl("cordon", node) for node in slow),
            tuple(kubectl("uncordon", node) for node in slow),
        ),
    )


def _slow_label(losses: Losses) -> str:
    """What a node is slow at, as a label's value: letters, digits, and `-_.`, at most 63."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(losses))[:_MOST_LETTERS].strip("-_.")

"""The nodes that a system's pods may run on, and whose pods are there. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.errors import InputError
from assay.launch.kubernetes import quantities
from assay.launch.kubernetes.client import NODES, PODS, Cluster, Object
from assay.launch.kubernetes.connection import connect
from assay.launch.kubernetes.doctor.cluster_view import GRANT
from assay.launch.kubernetes.doctor.look import STILL_THERE
from assay.launch.kubernetes.doctor.places import away, foreign, is_device
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import LABEL_TOKEN
from assay.launch.kubernetes.refusals import ApiError
from assay.launch.kubernetes.scheduling import REQUIRED
from assay.launch.nodes import Member, NodeQuery, chosen

LITTLE_CPU = 0.5  # CPUs that others may have requested on a node that still counts as idle,
LITTLE_SHARE = 0.05  # or this share of the node's CPUs, if that is more
_EVERYWHERE = {"DaemonSet", "Node"}  # owners of pods that each node has, busy or not


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
    return not foreign(node, system) and (required is None or _any_term(node, required))


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
            cpus += sum(quantities.number(request["cpu"]) for request in requests if "cpu" in request)
    offered = quantities.number(node["status"].get("allocatable", {}).get("cpu", "0"))
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
            holds(attributes.get(requirement["key"]), requirement) for attributes, requirement in requirements
        ):
            return True
    return False


def holds(value: str | None, expression: Object) -> bool:
    """Whether a value, None if there is none, meets a requirement of a selector."""
    values, operator = expression.get("values", ()), expression["operator"]
    if operator in ("In", "Exists"):
        return value is not None and (operator == "Exists" or value in values)
    if operator in ("NotIn", "DoesNotExist"):
        return value is None or (operator == "NotIn" and value not in values)
    if value is None or not value.lstrip("-").isdigit():  # Gt and Lt apply to integers only
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])

"""Which nodes a job's pods run on: the shape's nodes, the placement, and the system's constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest, Order, labels_of_ranks
from assay.records import Shape

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
MORE_THAN_ANY = 2**31 - 1
KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-{}-topology"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def nodes_of(shape: Shape, options: KubernetesSystem) -> int | None:
    """How many nodes a job must run on: from its shape, otherwise from the placement: one per worker, or one.

    None if any number will do.
    """
    if shape.nodes is not None or shape.workers == 1:
        return shape.nodes
    return {"spread": shape.workers, "pack": 1, None: None}[options.placement]


def pod_fields(order: Order) -> Manifest:
    """Fields of the pod's spec that constrain where it may run; empty if there are no constraints."""
    options = order.options
    fields = {
        "nodeSelector": dict(options.nodeSelector),
        "affinity": _affinity(order),
        "tolerations": [toleration.model_dump(exclude_none=True) for toleration in options.tolerations],
        "topologySpreadConstraints": _spread(order),
        "schedulerName": options.schedulerName,
        "priorityClassName": options.priorityClassName,
        "runtimeClassName": options.runtimeClassName,
    }
    return {name: value for name, value in fields.items() if value}


def pod_annotations(order: Order) -> dict[str, str]:
    """What Kueue reads from a pod template."""
    topology = order.options.topology
    if topology is None:
        return {}
    ((how, level),) = topology.model_dump(exclude_none=True).items()
    return {KUEUE_TOPOLOGY.format(how): "true" if level is True else level}


def job_labels(order: Order) -> dict[str, str]:
    """What Kueue reads from a job object."""
    return {KUEUE_QUEUE: order.options.queue} if order.options.queue else {}


def _affinity(order: Order) -> Manifest:
    """The system's terms, and sharing of nodes if fewer nodes than pods are requested."""
    affinity: Manifest = order.options.affinity.model_dump(exclude_none=True)
    if order.options.nodes:
        affinity["nodeAffinity"] = _on_named_nodes(order.options)
    nodes, together = nodes_of(order.job.shape, order.options), dict(affinity.get("podAffinity", {}))
    if order.workers == 1:
        return affinity
    term = {"labelSelector": {"matchLabels": labels_of_ranks(order.job.token)}, "topologyKey": HOST}
    if nodes == 1:
        together[REQUIRED] = [*together.get(REQUIRED, ()), term]
    elif nodes not in (None, order.workers):
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        together[key] = [*together.get(key, ()), {"weight": 100, "podAffinityTerm": term}]
    return {**affinity, "podAffinity": together} if together else affinity


def _on_named_nodes(options: KubernetesSystem) -> Manifest:
    """The system's own terms, each combined with each of its nodes. One term must hold, with all its parts.

    Nodes are matched by name: the label kubernetes.io/hostname may differ. The API allows one name per term.
    """
    affinity = dict(options.affinity.nodeAffinity or {})
    terms = affinity.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    named = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in options.nodes]
    bound = [
        {**term, "matchFields": [*term.get("matchFields", ()), name]} for term in terms for name in named
    ]
    return {**affinity, REQUIRED: {"nodeSelectorTerms": bound}}


def _spread(order: Order) -> list[Manifest]:
    """The system's constraints, and at most as many pods per node as fill the requested nodes.

    If there are fewer nodes than minDomains, the minimum over nodes counts as zero: maxSkew is then the most
    pods that may be on any node. With that and a preference for company, exactly as many nodes are filled as
    were requested.
    """
    selector = {"labelSelector": {"matchLabels": labels_of_ranks(order.job.token)}}
    constraints = order.options.topologySpreadConstraints
    spread = [{**constraint.model_dump(exclude_none=True), **selector} for constraint in constraints]
    nodes = nodes_of(order.job.shape, order.options)
    if order.workers > 1 and nodes is not None and nodes > 1:
        most = order.workers // nodes
        hard = {"minDomains": MORE_THAN_ANY, "whenUnsatisfiable": "DoNotSchedule"}
        spread.append({"topologyKey": HOST, "maxSkew": most, **hard, **selector})
    return spread


def meets(value: str | None, requirement: Mapping[str, Any]) -> bool:
    """Whether a value, None if there is none, meets a requirement of a selector."""
    values, operator = requirement.get("values", ()), requirement["operator"]
    if operator in ("In", "Exists"):
        return value is not None and (operator == "Exists" or value in values)
    if operator in ("NotIn", "DoesNotExist"):
        return value is None or (operator == "NotIn" and value not in values)
    if value is None or not value.lstrip("-").isdigit():  # Gt and Lt apply to integers only
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])

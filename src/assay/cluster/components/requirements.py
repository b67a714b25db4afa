"""Whether a part is in place: its objects and requirements, and where to look if not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.checks import Check
from assay.cluster.components import Preparation
from assay.cluster.components.component import (
    DeploymentRollout,
    NodeLabel,
    NodeResource,
    ObjectStatus,
    Requirement,
)
from assay.cluster.components.objects import (
    ALIKE,
    description,
    find_object,
    instead_of,
    is_being_deleted,
    object_key,
)
from assay.launch.kubernetes.client import NODES, Cluster, Object, Resource
from assay.launch.kubernetes.fields import quantity_number
from assay.launch.kubernetes.objects.order import Manifest

DEPLOYMENTS = Resource("apps/v1", "deployments")
APPLY = "assay cluster prepare SYSTEM --apply"


def check_all(cluster: Cluster, preparation: Preparation) -> list[tuple[str, Check]]:
    """The check of each object and requirement, with the name of its part. Changes nothing."""
    required_by_part = {part.name: part.requirements(preparation.target) for part in preparation.parts}
    of_nodes = any(
        isinstance(requirement, NodeLabel | NodeResource)
        for listed in required_by_part.values()
        for requirement in listed
    )
    nodes = cluster.list(NODES, everywhere=True).items if of_nodes else []
    return [
        (part.name, check_result)
        for part in preparation.parts
        for check_result in (
            *(
                _present(cluster, obj)
                for obj in _silent(part.objects(preparation.target), required_by_part[part.name])
            ),
            *(check(cluster, required, nodes) for required in required_by_part[part.name]),
        )
    ]


def _silent(manifests: Sequence[Manifest], requirements: Sequence[Requirement]) -> list[Manifest]:
    """The objects that no requirement examines."""
    examined = {
        (requirement.kind, requirement.namespace or "", requirement.name)
        for requirement in requirements
        if isinstance(requirement, ObjectStatus)
    }
    return [obj for obj in manifests if object_key(obj) not in examined]


def _present(cluster: Cluster, obj: Manifest) -> Check:
    what, kind = description(obj), obj["kind"]
    if kind not in cluster.kinds(obj["apiVersion"]):
        return _unknown_kind(what, kind, obj["apiVersion"])
    existing = find_object(cluster, obj)
    if existing is not None:
        return _going(what) if is_being_deleted(existing) else Check(what, "ok", "it exists")
    instead = instead_of(cluster, obj) if kind in ALIKE else None
    if instead is not None:
        return Check(what, "ok", f"{instead['metadata']['name']} exists, and does the same")
    return Check(what, "fail", "it does not exist", APPLY)


def check(cluster: Cluster, required: Requirement, nodes: Sequence[Object]) -> Check:
    """The check of one requirement.

    nodes  all nodes of the cluster; listed only if the requirement is a NodeLabel or a NodeResource
    """
    match required:
        case NodeLabel():
            return _check_label(nodes, required)
        case NodeResource():
            return _check_resource(nodes, required)
        case ObjectStatus():
            return _check_status(cluster, required)
        case DeploymentRollout():
            return _check_rollout(cluster, required)


def _check_label(nodes: Sequence[Object], required: NodeLabel) -> Check:
    bearing = [node for node in nodes if node["metadata"]["labels"].get(required.label) == required.value]
    name = f"{required.label}={required.value}"
    if bearing:
        return Check(name, "ok", f"on {len(bearing)} of {len(nodes)} nodes")
    return Check(
        name,
        "fail",
        f"on none of {len(nodes)} nodes",
        "no node has such a device, or node feature discovery is not running on it: "
        "kubectl get pods -A | grep nfd",
    )


def _check_resource(nodes: Sequence[Object], required: NodeResource) -> Check:
    offered = [
        quantity_number(str(node["status"]["allocatable"].get(required.resource, "0"))) for node in nodes
    ]
    if total := sum(offered):
        some = sum(amount > 0 for amount in offered)
        return Check(required.resource, "ok", f"{total:g} on {some} of {len(nodes)} nodes")
    return Check(
        required.resource,
        "fail",
        f"offered by none of {len(nodes)} nodes",
        "the device plugin is not running, or sees no device: check its pod's log",
    )


def _check_status(cluster: Cluster, required: ObjectStatus) -> Check:
    what = f"{required.kind} {required.name}"
    plural = cluster.kinds(required.api_version).get(required.kind)
    if plural is None:
        return _unknown_kind(what, required.kind, required.api_version)
    there = cluster if required.namespace is None else cluster.within(required.namespace)
    resource = Resource(required.api_version, plural)
    obj = there.find(resource, required.name, everywhere=required.namespace is None)
    if obj is None:
        return Check(what, "fail", "it does not exist", APPLY)
    if is_being_deleted(obj):
        return _going(what)
    value, path = _at(obj, required.path), ".".join(required.path)
    if value == required.value:
        return Check(what, "ok", f"{path} is {value}")
    space = f"-n {required.namespace} " if required.namespace else ""
    remedy = f"kubectl {space}describe {plural} {required.name}"
    return Check(what, "fail", f"{path} is {value or 'not set yet'}; expected {required.value}", remedy)


def _check_rollout(cluster: Cluster, required: DeploymentRollout) -> Check:
    what = f"Deployment {required.name} in {required.namespace}"
    deployment = cluster.within(required.namespace).find(DEPLOYMENTS, required.name)
    if deployment is None:
        return Check(what, "fail", "it does not exist", "install its manifests first")
    replicas, ready = deployment["spec"]["replicas"], deployment["status"].get("readyReplicas", 0)
    if ready >= replicas > 0:
        return Check(what, "ok", f"{ready} of {replicas} replicas are ready")
    remedy = f"kubectl -n {required.namespace} describe deployment {required.name}"
    return Check(what, "fail", f"{ready} of {replicas} replicas are ready", remedy)


def _unknown_kind(what: str, kind: str, api_version: str) -> Check:
    lacks = f"the cluster has no {kind} of {api_version}"
    return Check(what, "fail", lacks, "install the operator that provides it")


def _going(what: str) -> Check:
    return Check(what, "fail", "it is being deleted", f"once it is gone: {APPLY}")


def _at(obj: Object, path: tuple[str, ...]) -> str | None:
    """The value at a path; for a list of conditions, the status of the one with that type."""
    value: Any = obj
    for key in path:
        if isinstance(value, list):
            value = next((condition["status"] for condition in value if condition["type"] == key), None)
        else:
            value = (value or {}).get(key)
    return None if value is None else str(value)

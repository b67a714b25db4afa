"""Whether what a part brings is there: each requirement asked of the cluster, and where to look if not."""

from __future__ import annotations

from typing import Any

from assay.cluster.check import Check
from assay.cluster.components.part import Labelled, Offers, Requirement, Rolled, Says
from assay.launch.kubernetes.client import NODES, Cluster, Object, Resource
from assay.launch.kubernetes.quantities import number

DEPLOYMENTS = Resource("apps/v1", "deployments")


def check(cluster: Cluster, required: Requirement) -> Check:
    """One requirement, with what was found."""
    match required:
        case Labelled():
            return _labelled(cluster, required)
        case Offers():
            return _offers(cluster, required)
        case Says():
            return _says(cluster, required)
        case Rolled():
            return _rolled(cluster, required)


def _labelled(cluster: Cluster, required: Labelled) -> Check:
    nodes = cluster.list(NODES, everywhere=True).items
    bearing = [node for node in nodes if node["metadata"]["labels"].get(required.label) == required.value]
    name = f"{required.label}={required.value}"
    if bearing:
        return Check(name, "ok", f"on {len(bearing)} of {len(nodes)} nodes")
    return Check(
        name,
        "fail",
        f"on none of {len(nodes)} nodes",
        "no node has such a device, or node feature discovery does not run on it: "
        "kubectl get pods -A | grep nfd",
    )


def _offers(cluster: Cluster, required: Offers) -> Check:
    nodes = cluster.list(NODES, everywhere=True).items
    offered = [number(str(node["status"]["allocatable"].get(required.resource, "0"))) for node in nodes]
    if total := sum(offered):
        some = sum(amount > 0 for amount in offered)
        return Check(required.resource, "ok", f"{total:g} on {some} of {len(nodes)} nodes")
    return Check(
        required.resource,
        "fail",
        f"offered by none of {len(nodes)} nodes",
        "the device plug-in does not run, or sees no device: look at its pod's log",
    )


def _says(cluster: Cluster, required: Says) -> Check:
    what = f"{required.kind} {required.name}"
    plural = cluster.kinds(required.api_version).get(required.kind)
    if plural is None:
        lacks = f"the cluster has no {required.kind} of {required.api_version}"
        return Check(what, "fail", lacks, "install the operator that brings it")
    there = cluster if required.namespace is None else cluster.within(required.namespace)
    of = Resource(required.api_version, plural)
    found = there.find(of, required.name, everywhere=required.namespace is None)
    if found is None:
        return Check(what, "fail", "it is not there", "assay cluster prepare SYSTEM --apply")
    value, path = _at(found, required.path), ".".join(required.path)
    if value == required.value:
        return Check(what, "ok", f"{path} is {value}")
    space = f"-n {required.namespace} " if required.namespace else ""
    remedy = f"kubectl {space}describe {plural} {required.name}"
    return Check(what, "fail", f"{path} is {value or 'not said yet'}; expected {required.value}", remedy)


def _rolled(cluster: Cluster, required: Rolled) -> Check:
    what = f"Deployment {required.name} in {required.namespace}"
    found = cluster.within(required.namespace).find(DEPLOYMENTS, required.name)
    if found is None:
        return Check(what, "fail", "it is not there", "install its manifests first")
    wanted, ready = found["spec"]["replicas"], found["status"].get("readyReplicas", 0)
    if ready >= wanted > 0:
        return Check(what, "ok", f"{ready} of {wanted} replicas are ready")
    remedy = f"kubectl -n {required.namespace} describe deployment {required.name}"
    return Check(what, "fail", f"{ready} of {wanted} replicas are ready", remedy)


def _at(obj: Object, path: tuple[str, ...]) -> str | None:
    """What stands at a path; of a list of conditions the status of the one of that type."""
    value: Any = obj
    for key in path:
        if isinstance(value, list):
            value = next((one["status"] for one in value if one["type"] == key), None)
        else:
            value = (value or {}).get(key)
    return None if value is None else str(value)

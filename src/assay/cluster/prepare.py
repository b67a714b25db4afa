"""Brings prepared objects to a cluster and takes them back, by server-side apply.

The API server itself keeps whose each field is. Nothing is taken from another manager: where one owns a
field with another value, that is a conflict, and nothing at all is changed. So what was there before is
still there, under what was added; giving up Assay's fields leaves it as it was. What Assay made it marks in
the request that makes it, so that an interruption at any point leaves no object of unknown origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assay.cluster import openshift
from assay.cluster.rbac import AUTHORIZATION
from assay.errors import InputError
from assay.launch.kubernetes.client import PODS, Cluster, Object, Resource
from assay.launch.kubernetes.refusals import Conflict, NotFound

ORIGIN = "assay.dev/prepared"  # label: whether the object was made by Assay or found and added to
MADE, FOUND = "made", "found"
NAMESPACES = Resource("v1", "namespaces")
ACCOUNTS = Resource("v1", "serviceaccounts")
CLAIMS = Resource("v1", "persistentvolumeclaims")
ROLES = Resource(f"{AUTHORIZATION}/v1", "roles")
BINDINGS = Resource(f"{AUTHORIZATION}/v1", "rolebindings")
CONSTRAINTS = Resource(f"{openshift.SECURITY}/v1", "securitycontextconstraints")
CLUSTER_WIDE = ("Namespace", "SecurityContextConstraints")
THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")


@dataclass(frozen=True)
class Step:
    """What is to happen, or happened, to one object.

    does   make, change, keep; conflict: another manager has a field of it; restore: give up Assay's fields
           of it; delete: Assay made it; stays: it is to go, but holds what is not Assay's
    about  fields with old and new value, or why
    """

    does: Literal["make", "change", "keep", "conflict", "restore", "delete", "stays"]
    called: str
    about: tuple[str, ...] = ()


def plan(cluster: Cluster, objects: Sequence[Object]) -> list[Step]:
    """What `apply` would do, by the API server's own dry run. Changes nothing."""
    _need_openshift(cluster)
    steps = [_planned(cluster, obj) for obj in objects]
    return [*steps, *(_undo_step(cluster, old) for old in _no_longer(cluster, objects))]


def apply(cluster: Cluster, objects: Sequence[Object]) -> list[Step]:
    """Make or change the objects, and take back what an earlier preparation had that is not among them.

    Raises InputError, and has changed nothing, where another manager owns a field with another value.
    """
    steps = plan(cluster, objects)
    conflicts = [f"{step.called}: {line}" for step in steps if step.does == "conflict" for line in step.about]
    if conflicts:
        raise InputError(
            "nothing was changed, since fields belong to others:\n  " + "\n  ".join(conflicts) + "\n"
            "have them changed by who owns them, or give the system another namespace or serviceAccountName"
        )
    old = list(_no_longer(cluster, objects))
    for obj in objects:
        cluster.apply(_marked(obj, _there(cluster, obj)), everywhere=_is_wide(obj))
    for was in old:
        _undo(cluster, was)
    return [replace(step, about=()) if step.does == "make" else step for step in steps]


def revert(cluster: Cluster) -> list[Step]:
    """Delete what Assay made for this namespace and give up what it added; reverting twice is once.

    A namespace that still holds pods or claims stays.
    """
    return [_undo(cluster, obj) for obj in _prepared(cluster)]


def _need_openshift(cluster: Cluster) -> None:
    if openshift.SECURITY not in cluster.groups():
        raise InputError(
            f"the cluster of context {cluster.context} is not OpenShift: it has no API group "
            f"{openshift.SECURITY}; Kubernetes needs only what `assay cluster rbac` prints"
        )


# There and back


def _planned(cluster: Cluster, obj: Object) -> Step:
    called, before = _called(obj), _there(cluster, obj)
    try:
        after = cluster.apply(_marked(obj, before), dry_run=True, everywhere=_is_wide(obj))
    except Conflict as error:
        return Step("conflict", called, tuple(f"{field}: {whose}" for field, whose in error.fields))
    except NotFound:
        if before is None and not _is_wide(obj) and _space(cluster) is None:
            return Step("make", called, ("the namespace comes first, so the server can't check it yet",))
        raise
    if before is None:
        return Step("make", called)
    changes = tuple(_differences(_plain(before), _plain(after)))
    return Step("change" if changes else "keep", called, changes)


def _undo(cluster: Cluster, obj: Object) -> Step:
    step = _undo_step(cluster, obj)
    if step.does == "delete":
        seen = {name: obj["metadata"][name] for name in ("uid", "resourceVersion")}
        name, wide = obj["metadata"]["name"], _is_wide(obj)
        cluster.delete(cluster.resource_of(obj), name, only=seen, everywhere=wide)
    else:
        cluster.apply(_nothing_of(obj), everywhere=_is_wide(obj))
    return step


def _undo_step(cluster: Cluster, obj: Object) -> Step:
    if obj["metadata"]["labels"][ORIGIN] == FOUND:
        return Step("restore", _called(obj), ("it was there before",))
    if obj["kind"] == "Namespace":
        held = [f"{len(there)} {of.plural}" for of in (PODS, CLAIMS) if (there := cluster.list(of).items)]
        if held:
            remedy = f"when they may go: kubectl delete namespace {cluster.namespace}"
            return Step("stays", _called(obj), (f"it holds {' and '.join(held)}; {remedy}",))
    return Step("delete", _called(obj))


def _no_longer(cluster: Cluster, objects: Sequence[Object]) -> Iterator[Object]:
    wanted = {_called(obj) for obj in objects}
    return (obj for obj in _prepared(cluster) if _called(obj) not in wanted)


def _prepared(cluster: Cluster) -> list[Object]:
    """What bears the mark, the last made first."""
    space = _space(cluster)
    if space is None:
        inside: list[Object] = []
    else:
        inside = [
            {**kind, **obj}
            for of, kind in ((BINDINGS, _RB), (ROLES, _ROLE), (ACCOUNTS, _SA))
            for obj in cluster.list(of, labels=ORIGIN).items
        ]
    try:
        constraints = cluster.find(CONSTRAINTS, openshift.scc_name(cluster.namespace), everywhere=True)
    except NotFound:  # no OpenShift
        constraints = None
    found = [*inside, *(obj for obj in (constraints, space) if obj is not None and ORIGIN in _labels(obj))]
    return [obj for obj in found if "deletionTimestamp" not in obj["metadata"]]


# a list leaves out what its items are
_SA = {"apiVersion": "v1", "kind": "ServiceAccount"}
_ROLE = {"apiVersion": ROLES.api_version, "kind": "Role"}
_RB = {"apiVersion": BINDINGS.api_version, "kind": "RoleBinding"}


def _space(cluster: Cluster) -> Object | None:
    return cluster.find(NAMESPACES, cluster.namespace, everywhere=True)


def _there(cluster: Cluster, obj: Object) -> Object | None:
    return cluster.find(cluster.resource_of(obj), obj["metadata"]["name"], everywhere=_is_wide(obj))


# Objects


def _marked(obj: Object, before: Object | None) -> Object:
    """With its origin, which a later apply does not change."""
    origin = MADE if before is None else _labels(before).get(ORIGIN, FOUND)
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), ORIGIN: origin}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def _nothing_of(obj: Object) -> Object:
    """An apply of this gives up every field, and what nobody else owns goes."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def _plain(obj: Object) -> Object:
    """Without what the server counts."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in THE_SERVERS}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{where}.{key}")
    elif before != after:
        yield f"{where}: {_word(before)} → {_word(after)}"


def _word(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _labels(obj: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    return labels


def _called(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"


def _is_wide(obj: Object) -> bool:
    return obj["kind"] in CLUSTER_WIDE

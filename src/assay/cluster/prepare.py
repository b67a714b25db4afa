"""Applies a preparation to a cluster and reverts it, with server-side apply.

The API server itself tracks the owner of each field. Nothing is taken from another manager: if one owns a
field with another value, that is a conflict, and nothing at all is changed. So whatever existed before is
still there below the additions; releasing Assay's fields leaves it as it was. Touched objects carry marks
(components/objects.py), by which they are found again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from assay.cluster.components import KINDS, Preparation
from assay.cluster.components.node_settings import restarted_pool
from assay.cluster.components.objects import (
    ALIKE,
    CREATED,
    FOR,
    FOUND,
    ORIGIN,
    PART,
    description,
    find_object,
    instead_of,
    is_being_deleted,
    labels_of,
    marked_object,
    object_key,
    object_place,
    other_owners,
    released_object,
    without_marks,
)
from assay.errors import InputError
from assay.launch.kubernetes.client import PODS, Cluster, Object, Resource
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError, ConflictError, NotFoundError

CLAIMS = Resource("v1", "persistentvolumeclaims")
VOLUMES = Resource("v1", "persistentvolumes")


@dataclass(frozen=True)
class ObjectChange:
    """What will happen, or happened, to one object.

    does   make, change, keep; wait: an operator of the same preparation provides its kind, apply again
           later; lacks: the cluster does not have its kind; conflict: another manager owns one of its fields;
           refused: the server rejects it; restore: release Assay's fields of it; delete: Assay created it;
           stays: it should go, but contains things that are not Assay's
    about  fields with old and new value, or the reason
    pool   of nodes that restart for it; None if none do
    """

    does: Literal[
        "make", "change", "keep", "wait", "lacks", "conflict", "refused", "restore", "delete", "stays"
    ]
    part: str
    called: str
    about: tuple[str, ...] = ()
    pool: str | None = None

    @property
    def restarts(self) -> bool:
        """Whether this restarts nodes."""
        return self.pool is not None and self.does in ("make", "change", "restore", "delete")


HINDERS = ("lacks", "conflict", "refused")  # with one of these, nothing is applied


def plan(cluster: Cluster, preparation: Preparation) -> list[ObjectChange]:
    """What `apply` would do, from the API server's own dry run. Changes nothing."""
    return _plan(cluster, preparation, _objects_to_remove(cluster, preparation))


def apply(cluster: Cluster, preparation: Preparation) -> list[ObjectChange]:
    """Create or change the objects, and remove those of an earlier preparation that are not among them.

    Raises InputError, without changing anything, if a step is impossible.
    """
    old = _objects_to_remove(cluster, preparation)
    steps = _plan(cluster, preparation, old)
    hindered = [f"{step.called}: {line}" for step in steps if step.does in HINDERS for line in step.about]
    if hindered:
        raise InputError("nothing was changed:\n  " + "\n  ".join(hindered))
    for (part, obj), step in zip(preparation.objects(), steps, strict=False):  # the rest is removed
        if step.does in ("make", "change"):
            there, wide = object_place(cluster, obj)
            there.apply(_marked(cluster, part, obj, find_object(cluster, obj)), everywhere=wide)
    for was in old:
        _undo(cluster, was)
    return steps


def revert_plan(cluster: Cluster, parts: Collection[str] | None = None) -> list[ObjectChange]:
    """What `revert` would do. Changes nothing."""
    return [_undo_step(cluster, obj) for obj in _prepared(cluster, parts)]


def revert(cluster: Cluster, parts: Collection[str] | None = None) -> list[ObjectChange]:
    """Delete what Assay created for this namespace and release what it added; repeating it is harmless.

    A namespace that still contains pods or claims stays, and so does a claim whose data would be deleted.

    parts  parts to revert; None for all
    """
    return [_undo(cluster, obj) for obj in _prepared(cluster, parts)]


# Applying


def _plan(cluster: Cluster, preparation: Preparation, old: Iterable[Object]) -> list[ObjectChange]:
    steps = [_planned(cluster, preparation, part, obj) for part, obj in preparation.objects()]
    return [*steps, *(_undo_step(cluster, obj) for obj in old)]


def _planned(cluster: Cluster, preparation: Preparation, part: str, obj: Object) -> ObjectChange:
    called = description(obj)
    if obj["kind"] not in cluster.kinds(obj["apiVersion"]):
        return _unknown_kind(preparation, part, obj)
    before = find_object(cluster, obj)
    if before is not None and is_being_deleted(before):
        return ObjectChange("refused", part, called, ("it is being deleted: apply again once it is gone",))
    if before is None and (instead := instead_of(cluster, obj)) is not None:
        return _beside(part, obj, instead)
    if before is not None and text_key(obj) is not None:
        hints = missing_settings(obj, before)
        return ObjectChange("conflict" if hints else "keep", part, called, hints)
    try:
        after, first = _dry_run(cluster, preparation, _marked(cluster, part, obj, before))
    except ConflictError as error:
        return ObjectChange(
            "conflict", part, called, tuple(f"{field}: {whose}" for field, whose in error.fields)
        )
    except ApiUnreachableError:
        raise
    except ApiError as error:
        return ObjectChange("refused", part, called, (str(error),))
    pool = restarted_pool(obj)
    if before is None:
        return ObjectChange("make", part, called, first, pool)
    changes = tuple(_differences(without_marks(before), without_marks(after)))
    owner = labels_of(before).get(FOR, cluster.namespace)
    if owner == cluster.namespace:
        return ObjectChange("change" if changes else "keep", part, called, changes, pool)
    whose = f"it was prepared for namespace {owner}"
    return ObjectChange("conflict" if changes else "keep", part, called, (whose, *changes))


def _beside(part: str, obj: Object, instead: Object) -> ObjectChange:
    name = instead["metadata"]["name"]
    if obj["kind"] in ALIKE:
        return ObjectChange("keep", part, description(obj), (f"{name} already exists, and does the same",))
    why = f"{name} already exists, and only one is effective: change that one, or have it removed"
    return ObjectChange("refused", part, description(obj), (why,))


def _dry_run(cluster: Cluster, preparation: Preparation, obj: Object) -> tuple[Object, tuple[str, ...]]:
    """The result of an object's dry run, and remarks on it.

    If its namespace does not exist yet, the dry run uses the namespace that every cluster has.
    """
    there, wide = object_place(cluster, obj)
    try:
        return there.apply(obj, dry_run=True, everywhere=wide), ()
    except NotFoundError:
        if wide or not preparation.makes("v1", "Namespace", there.namespace):
            raise
    elsewhere = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
    with suppress(ConflictError):  # with one of the same name there
        cluster.within("default").apply(elsewhere, dry_run=True)
    return obj, (f"after namespace {there.namespace}",)


def _unknown_kind(preparation: Preparation, part: str, obj: Object) -> ObjectChange:
    kind = f"{obj['kind']} of {obj['apiVersion']}"
    if preparation.comes_later(obj["apiVersion"]):
        why = f"the operator subscribed to here provides {kind}: apply again later"
        return ObjectChange("wait", part, description(obj), (why,))
    first = ", ".join(f"{release.project}, {release.pin}" for release in preparation.references(part))
    remedy = f"; install first: {first}" if first else ""
    return ObjectChange("lacks", part, description(obj), (f"the cluster has no {kind}{remedy}",))


def _marked(cluster: Cluster, part: str, obj: Object, before: Object | None) -> Object:
    return marked_object(obj, before, part, cluster.namespace)


# Reverting


def _undo(cluster: Cluster, obj: Object) -> ObjectChange:
    step = _undo_step(cluster, obj)
    there, wide = object_place(cluster, obj)
    if step.does == "stays":
        return step
    if step.does == "delete":
        same = {"uid": obj["metadata"]["uid"]}
        there.delete(there.resource_of(obj), obj["metadata"]["name"], only=same, everywhere=wide)
        return step
    there.apply(released_object(obj), everywhere=wide)
    return step


def _undo_step(cluster: Cluster, obj: Object) -> ObjectChange:
    labels, called = labels_of(obj), description(obj)
    part = labels[PART]
    if labels[ORIGIN] == FOUND:
        return ObjectChange("restore", part, called, ("it existed before",), restarted_pool(obj))
    if obj["kind"] == "Namespace":
        there = cluster.within(obj["metadata"]["name"])
        held = [
            f"{len(others)} {resource.plural}"
            for resource in (PODS, CLAIMS)
            if (others := _unprepared(there, resource))
        ]
        if held:
            remedy = f"if they may be deleted: kubectl delete namespace {there.namespace}"
            return ObjectChange("stays", part, called, (f"it contains {' and '.join(held)}; {remedy}",))
    if obj["kind"] == "PersistentVolumeClaim" and (volume := _lost_with(cluster, obj)):
        why = f"volume {volume} and its data would be deleted too; if they may be: "
        name, space = obj["metadata"]["name"], obj["metadata"]["namespace"]
        return ObjectChange("stays", part, called, (f"{why}kubectl -n {space} delete pvc {name}",))
    theirs = other_owners(obj)
    if theirs and (key := text_key(obj)) is not None:
        why = f"{', '.join(theirs)} changed it: remove Assay's lines from .data.{key} yourself"
        return ObjectChange("stays", part, called, (why,))
    about = (f"some fields belong to {', '.join(theirs)}",) if theirs else ()
    return ObjectChange("delete", part, called, about, restarted_pool(obj))


def _lost_with(cluster: Cluster, claim: Object) -> str | None:
    """The volume that is deleted with its claim; None if it is kept, or there is none."""
    name = claim["spec"].get("volumeName")
    volume = None if name is None else cluster.find(VOLUMES, name, everywhere=True)
    deletes = volume is not None and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    return name if deletes else None


def _unprepared(there: Cluster, resource: Resource) -> list[Object]:
    """Objects in a namespace that no preparation created."""
    return [obj for obj in there.list(resource).items if labels_of(obj).get(ORIGIN) != CREATED]


def _objects_to_remove(cluster: Cluster, preparation: Preparation) -> list[Object]:
    names = {(obj["apiVersion"], *object_key(obj)) for _, obj in preparation.objects()}
    parts = None if preparation.whole else preparation.names()
    return [obj for obj in _prepared(cluster, parts) if (obj["apiVersion"], *object_key(obj)) not in names]


def _prepared(cluster: Cluster, parts: Collection[str] | None) -> list[Object]:
    """Objects with this namespace's mark, newest first."""
    marked = []
    for api_version, kind in reversed(KINDS):
        plural = cluster.kinds(api_version).get(kind)
        if plural is not None:
            # a list omits the kind of its items
            whose = {"apiVersion": api_version, "kind": kind}
            marked += [{**whose, **obj} for obj in _marked_objects(cluster, Resource(api_version, plural))]
    return [
        obj
        for obj in marked
        if not is_being_deleted(obj) and (parts is None or labels_of(obj)[PART] in parts)
    ]


def _marked_objects(cluster: Cluster, resource: Resource) -> list[Object]:
    try:
        return cluster.list(resource, labels=f"{FOR}={cluster.namespace}", everywhere=True).items
    except NotFoundError:  # its definition is just being deleted, and with it all objects of the kind
        return []


# Differences


def _differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{where}.{key}")
    elif before != after:
        yield f"{where}: {_word(before)} → {_word(after)}"


def _word(value: Any) -> str:
    return "nothing" if value is None else str(value)


# Settings that are lines of a text within an object: the API server can't merge them, so nothing else does.
# If the object does not exist, it is created with the requested lines. If it exists, its text is never
# written: it belongs to whoever keeps it, and only they know what else it must contain.
_TEXTS: Final[Mapping[tuple[str, str, str], str]] = {
    ("ConfigMap", "openshift-monitoring", "cluster-monitoring-config"): "config.yaml",
}
"""Kind, namespace and name → the key whose text is YAML."""


def text_key(obj: Manifest) -> str | None:
    """The key with the text; None if the object has none."""
    metadata = obj["metadata"]
    return _TEXTS.get((obj["kind"], metadata.get("namespace", ""), metadata["name"]))


def missing_settings(obj: Manifest, before: Manifest) -> tuple[str, ...]:
    """What a person must do so that the existing text has the requested settings; empty if it has them.

    obj     with the requested text
    before  as it is on the cluster
    """
    key = text_key(obj)
    assert key is not None
    data = before.get("data")
    text = data.get(key, "") if isinstance(data, Mapping) else ""
    field = f".data.{key}"
    requested, existing = _mapping(obj["data"][key]), _mapping(text)
    assert requested is not None
    if existing is None:
        return (f"{field}: it is not a mapping in YAML: correct it first",)
    return tuple(
        f"{field}: {_step(name, value, existing)}; the rest of the text stays, so Assay doesn't write it"
        for name, value in requested.items()
        if existing.get(name) != value
    )


def _step(name: str, value: object, existing: Mapping[str, object]) -> str:
    line = f'"{name}: {str(value).lower() if isinstance(value, bool) else value}"'
    return f"change {name} to {line}" if name in existing else f"add the line {line}"


def _mapping(text: object) -> Mapping[str, object] | None:
    """A text's top-level keys; None if it is no mapping. An empty text is an empty one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if not isinstance(text, str):
        return None
    try:
        loaded = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return None
    return {} if loaded is None else loaded if isinstance(loaded, Mapping) else None

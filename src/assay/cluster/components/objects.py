"""An object to prepare on the cluster: its place and current state, and Assay's marks on it.

The marks say who owns an object that a preparation touched, and whether it existed before. They are written
in the request that touches it, so that an interruption at any point leaves no object of unknown origin, and
no separate record is needed that could be lost. The previous content needs no record: the API server tracks
the owner of each field, and removes Assay's fields when they are released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.launch.kubernetes.client import FIELD_MANAGER, Cluster, Object
from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest


def object_place(cluster: Cluster, obj: Manifest) -> tuple[Cluster, bool]:
    """The scope of an object: its namespace, or the whole cluster (True)."""
    space = obj["metadata"].get("namespace")
    return (cluster if space is None else cluster.within(space)), space is None


def find_object(cluster: Cluster, obj: Manifest) -> Object | None:
    """The object as it is now; None if it does not exist."""
    there, wide = object_place(cluster, obj)
    return there.find(there.resource_of(obj), obj["metadata"]["name"], everywhere=wide)


def instead_of(cluster: Cluster, obj: Manifest) -> Object | None:
    """The object with another name that takes the place of one that may exist only once."""
    if obj["kind"] not in SINGLE_KINDS:
        return None
    there, wide = object_place(cluster, obj)
    return other_in_place(obj, there.list(there.resource_of(obj), everywhere=wide).items)


def is_being_deleted(obj: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def object_key(obj: Manifest) -> tuple[str, str, str]:
    """Kind, namespace ("" if it has none), and name."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def description(obj: Manifest) -> str:
    """The same as text: `Role puller in images`."""
    kind, space, own = object_key(obj)
    return f"{kind} {own}" + (f" in {space}" if space else "")


Place = Callable[[Manifest], Any]
_PLACE: Mapping[str, Place] = {
    "OperatorGroup": lambda obj: obj["metadata"]["namespace"],
    "Subscription": lambda obj: (obj["metadata"]["namespace"], obj["spec"]["name"]),
    "NodeFeatureDiscovery": lambda obj: obj["metadata"]["namespace"],
    "ClusterPolicy": lambda _obj: "the cluster",
    "KubeletConfig": lambda obj: obj["spec"].get("machineConfigPoolSelector"),
    "PerformanceProfile": lambda obj: obj["spec"].get("nodeSelector"),
}
"""What two objects of a kind can't share: OLM accepts one group per namespace and one subscription per
package, operators use one object, a pool of nodes has one configuration."""

SINGLE_KINDS = frozenset(_PLACE)
ALIKE = frozenset({"OperatorGroup", "Subscription"})  # one made by somebody else serves as well


def other_in_place(obj: Manifest, there: Iterable[Manifest]) -> Manifest | None:
    """The object with another name that takes the place of this one; None if the place is free."""
    place, name = _PLACE[obj["kind"]], obj["metadata"]["name"]
    return next(
        (other for other in there if other["metadata"]["name"] != name and place(other) == place(obj)), None
    )


ORIGIN = "assay.dev/prepared"  # whether Assay created the object, or found it and added to it
CREATED, FOUND = "made", "found"
FOR = "assay.dev/prepared-for"  # the namespace of the pods that it was prepared for
PART = "assay.dev/part"  # the part that it belongs to
LABELS = (ORIGIN, FOR, PART)
THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


def marked_object(obj: Object, before: Object | None, part: str, namespace: str) -> Object:
    """The object with its marks; existing marks stay.

    before  the object as it is now; None if it does not exist
    """
    labels = dict(obj["metadata"].get("labels", {}))
    borne = (
        {} if before is None else {key: labels_of(before)[key] for key in LABELS if key in labels_of(before)}
    )
    marks = borne or {ORIGIN: CREATED if before is None else FOUND, FOR: namespace, PART: part}
    if marks[ORIGIN] == FOUND:
        for name in MANAGED_BY:  # it keeps its owner
            labels.pop(name, None)
    return {**obj, "metadata": {**obj["metadata"], "labels": {**labels, **marks}}}


def released_object(obj: Object) -> Object:
    """Applying this releases every field; those that nobody else owns are removed."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def labels_of(obj: Object) -> Mapping[str, str]:
    """Its labels; empty if it has none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    return labels


def without_marks(obj: Object) -> Object:
    """The object without the server's counters and without marks."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in THE_SERVERS}
    labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in LABELS}
    metadata |= {"labels": labels} if labels else {}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def other_owners(obj: Object) -> tuple[str, ...]:
    """Who else owns fields of the object, except its status."""
    managers = (
        entry["manager"]
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] != FIELD_MANAGER and entry.get("subresource") != "status"
    )
    return tuple(dict.fromkeys(managers))

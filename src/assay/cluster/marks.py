"""Marks on an object that a preparation touched: its owner, and whether it existed before. Pure.

They are written in the request that touches the object, so that an interruption at any point leaves no object
of unknown origin, and no separate record is needed that could be lost. The previous content needs no record:
the API server tracks the owner of each field, and removes Assay's fields when they are released.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.launch.kubernetes.client import FIELD_MANAGER, Object
from assay.launch.kubernetes.order import MANAGED_BY

ORIGIN = "assay.dev/prepared"  # whether Assay created the object, or found it and added to it
MADE, FOUND = "made", "found"
FOR = "assay.dev/prepared-for"  # the namespace of the pods that it was prepared for
PART = "assay.dev/part"  # the part that it belongs to
LABELS = (ORIGIN, FOR, PART)
THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


def marked(obj: Object, before: Object | None, part: str, namespace: str) -> Object:
    """The object with its marks; existing marks stay.

    before  the object as it is now; None if it does not exist
    """
    labels = dict(obj["metadata"].get("labels", {}))
    borne = (
        {} if before is None else {key: labels_of(before)[key] for key in LABELS if key in labels_of(before)}
    )
    marks = borne or {ORIGIN: MADE if before is None else FOUND, FOR: namespace, PART: part}
    if marks[ORIGIN] == FOUND:
        for name in MANAGED_BY:  # it keeps its owner
            labels.pop(name, None)
    return {**obj, "metadata": {**obj["metadata"], "labels": {**labels, **marks}}}


def nothing_of(obj: Object) -> Object:
    """Applying this releases every field; those that nobody else owns are removed."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def labels_of(obj: Object) -> Mapping[str, str]:
    """Its labels; empty if it has none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    return labels


def plain(obj: Object) -> Object:
    """The object without the server's counters and without marks."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in THE_SERVERS}
    labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in LABELS}
    metadata |= {"labels": labels} if labels else {}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def others(obj: Object) -> tuple[str, ...]:
    """Who else owns fields of the object, except its status."""
    managers = (
        entry["manager"]
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] != FIELD_MANAGER and entry.get("subresource") != "status"
    )
    return tuple(dict.fromkeys(managers))

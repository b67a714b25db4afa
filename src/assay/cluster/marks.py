"""What stands on an object that a preparation touched: whose it is, and whether it was there before. Pure.

It is written in the request that touches the object, so that an interruption at any point leaves no object of
unknown origin, and it needs no place of its own that could be lost. What an object held before needs no note:
the API server keeps whose each field is, and takes out Assay's when they are given up.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.launch.kubernetes.client import FIELD_MANAGER, Object
from assay.launch.kubernetes.order import MANAGED_BY

ORIGIN = "assay.dev/prepared"  # whether the object was made by Assay or found and added to
MADE, FOUND = "made", "found"
FOR = "assay.dev/prepared-for"  # the namespace of the pods that it was prepared for
PART = "assay.dev/part"  # the part that it belongs to
LABELS = (ORIGIN, FOR, PART)
THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


def marked(obj: Object, before: Object | None, part: str, namespace: str) -> Object:
    """The object with its marks; those that it bears already stay.

    before  the object as it is now; None where there is none
    """
    labels = dict(obj["metadata"].get("labels", {}))
    borne = (
        {} if before is None else {key: labels_of(before)[key] for key in LABELS if key in labels_of(before)}
    )
    marks = borne or {ORIGIN: MADE if before is None else FOUND, FOR: namespace, PART: part}
    if marks[ORIGIN] == FOUND:
        for name in MANAGED_BY:  # it stays its owner's
            labels.pop(name, None)
    return {**obj, "metadata": {**obj["metadata"], "labels": {**labels, **marks}}}


def nothing_of(obj: Object) -> Object:
    """An apply of this gives up every field, and what nobody else owns goes."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def labels_of(obj: Object) -> Mapping[str, str]:
    """Its labels; none where it has none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    return labels


def plain(obj: Object) -> Object:
    """Without what the server counts, and without marks."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in THE_SERVERS}
    labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in LABELS}
    metadata |= {"labels": labels} if labels else {}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def others(obj: Object) -> tuple[str, ...]:
    """Who else owns fields of the object, its status aside."""
    managers = (
        entry["manager"]
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] != FIELD_MANAGER and entry.get("subresource") != "status"
    )
    return tuple(dict.fromkeys(managers))

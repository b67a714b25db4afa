"""What stands on an object that a preparation touched: whose it is, and what was there before. Pure.

It is written in the request that touches the object, so that an interruption at any point leaves no object of
unknown origin, and it needs no place of its own that could be lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.launch.kubernetes.client import FIELD_MANAGER, Object
from assay.launch.kubernetes.order import MANAGED_BY

ORIGIN = "assay.dev/prepared"  # label: whether the object was made by Assay or found and added to
MADE, FOUND = "made", "found"
FOR = "assay.dev/prepared-for"  # label: the namespace of the pods that it was prepared for
PART = "assay.dev/part"  # label: the part that it belongs to
BEFORE = "assay.dev/before"  # annotation: what an object that was found held, as JSON
_LABELS, _ANNOTATIONS = (ORIGIN, FOR, PART), (BEFORE,)
THE_SERVERS = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")


def marked(obj: Object, before: Object | None, part: str, namespace: str) -> Object:
    """The object with its marks; those that it bears already stay.

    before  the object as it is now; None where there is none
    """
    labels, annotations = dict(obj["metadata"].get("labels", {})), obj["metadata"].get("annotations", {})
    if before is None:
        return _with(obj, {**labels, ORIGIN: MADE, FOR: namespace, PART: part}, annotations)
    bears = _own(labels_of(before), _LABELS)
    if bears.get(ORIGIN) == MADE:
        return _with(obj, {**labels, **bears}, annotations)
    for name in MANAGED_BY:  # it stays its owner's
        labels.pop(name, None)
    if bears:
        return _with(obj, {**labels, **bears}, {**annotations, **_kept(before)})
    kept = {BEFORE: json.dumps(_content(before), sort_keys=True, separators=(",", ":"))}
    return _with(obj, {**labels, ORIGIN: FOUND, FOR: namespace, PART: part}, {**annotations, **kept})


def only_marks(obj: Object) -> Object:
    """An apply of this gives up every field but the marks."""
    return _with(nothing_of(obj), _own(labels_of(obj), _LABELS), _kept(obj))


def nothing_of(obj: Object) -> Object:
    """An apply of this gives up every field, and what nobody else owns goes."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def leftover(now: Object) -> Object:
    """What giving up leaves: a merge patch that removes what was not there before and nobody owns.

    That is what the server's defaults filled in beside Assay's fields, and mappings that are empty now.

    now  the object with its marks, its managedFields and none of Assay's fields
    """
    owned = [entry["fieldsV1"] for entry in now["metadata"]["managedFields"] if "fieldsV1" in entry]
    before = json.loads(now["metadata"]["annotations"][BEFORE])
    return _unowned(_content(now), before, owned)


def labels_of(obj: Object) -> Mapping[str, str]:
    """Its labels; none where it has none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    return labels


def plain(obj: Object) -> Object:
    """Without what the server counts, and without marks."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in THE_SERVERS}
    for field, marks in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
        rest = {key: value for key, value in metadata.pop(field, {}).items() if key not in marks}
        metadata |= {field: rest} if rest else {}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def others(obj: Object) -> tuple[str, ...]:
    """Who else owns fields of the object, its status and what the server itself adds aside."""
    managers = (
        entry["manager"]
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] != FIELD_MANAGER and entry.get("subresource") != "status"
    )
    return tuple(dict.fromkeys(managers))


def _content(obj: Object) -> Object:
    return {key: obj[key] for key in obj if key not in ("apiVersion", "kind", "metadata", "status")}


def _own(found: Mapping[str, str], marks: Iterable[str]) -> dict[str, str]:
    return {key: found[key] for key in marks if key in found}


def _kept(obj: Object) -> dict[str, str]:
    return _own(obj["metadata"].get("annotations", {}), _ANNOTATIONS)


def _with(obj: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    marks = {"labels": dict(labels), **({"annotations": dict(annotations)} if annotations else {})}
    return {**obj, "metadata": {**obj["metadata"], **marks}}


def _unowned(now: Mapping[str, Any], before: Mapping[str, Any], owned: Sequence[Object]) -> Object:
    """A merge patch for one place; `owned` has each manager's fields there: `f:NAME` → what is below."""
    patch: Object = {}
    for key, value in now.items():
        theirs = [fields[f"f:{key}"] for fields in owned if f"f:{key}" in fields]
        if key not in before:
            patch |= {} if theirs else {key: None}
        elif isinstance(value, Mapping) and isinstance(before[key], Mapping) and {} not in theirs:
            below = _unowned(value, before[key], theirs)
            patch |= {key: below} if below else {}
    return patch

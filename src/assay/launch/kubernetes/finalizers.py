"""What keeps a deleted object: finalizers, each of which somebody removes once their work is done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

_THE_CLUSTERS_OWN = {"foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"}
_SHOWN = 4


def foreign(obj: Object) -> str:
    """An object's finalizers that the cluster's own controllers don't remove, as text; "" without any."""
    return ", ".join(sorted(set(obj["metadata"].get("finalizers", ())) - _THE_CLUSTERS_OWN))


def what_stays(objects: Mapping[str, Object]) -> str:
    """Which of these deleted objects, by name, finalizers keep; "" if none.

    >>> what_stays({"job assay-1f": {"metadata": {"finalizers": ["example.com/hold"]}}})
    'deleted, but kept by finalizers: job assay-1f (example.com/hold); whoever set them must remove them'
    """
    held = [f"{name} ({finalizers})" for name, obj in objects.items() if (finalizers := foreign(obj))]
    if not held:
        return ""
    more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    shown = f"{', '.join(held[:_SHOWN])}{more}"
    return f"deleted, but kept by finalizers: {shown}; whoever set them must remove them"

"""Looking up an object to prepare on the cluster: its place and its current state."""

from __future__ import annotations

from assay.cluster.components import singletons
from assay.launch.kubernetes.client import Cluster, Object
from assay.launch.kubernetes.order import Manifest


def place(cluster: Cluster, obj: Manifest) -> tuple[Cluster, bool]:
    """The scope of an object: its namespace, or the whole cluster (True)."""
    space = obj["metadata"].get("namespace")
    return (cluster if space is None else cluster.within(space)), space is None


def find(cluster: Cluster, obj: Manifest) -> Object | None:
    """The object as it is now; None if it does not exist."""
    there, wide = place(cluster, obj)
    return there.find(there.resource_of(obj), obj["metadata"]["name"], everywhere=wide)


def first(cluster: Cluster, obj: Manifest) -> Object | None:
    """The object with another name that takes the place of one that may exist only once."""
    if obj["kind"] not in singletons.KINDS:
        return None
    there, wide = place(cluster, obj)
    return singletons.first(obj, there.list(there.resource_of(obj), everywhere=wide).items)


def is_going(obj: Object) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def name(obj: Manifest) -> tuple[str, str, str]:
    """Kind, namespace ("" if it has none), and name."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def called(obj: Manifest) -> str:
    """The same as text: `Role puller in images`."""
    kind, space, own = name(obj)
    return f"{kind} {own}" + (f" in {space}" if space else "")

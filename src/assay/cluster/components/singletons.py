"""Objects of which there can be one only: who came first stays, and a second is not made beside it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.launch.kubernetes.order import Manifest

Place = Callable[[Manifest], Any]
_PLACE: Mapping[str, Place] = {
    "OperatorGroup": lambda obj: obj["metadata"]["namespace"],
    "Subscription": lambda obj: (obj["metadata"]["namespace"], obj["spec"]["name"]),
    "NodeFeatureDiscovery": lambda obj: obj["metadata"]["namespace"],
    "ClusterPolicy": lambda _obj: "the cluster",
    "KubeletConfig": lambda obj: obj["spec"].get("machineConfigPoolSelector"),
    "PerformanceProfile": lambda obj: obj["spec"].get("nodeSelector"),
}
"""What two objects of a kind can't share: OLM takes one group in a namespace and one subscription of a
package, operators look at one object, a pool of nodes at one configuration."""

KINDS = frozenset(_PLACE)
ALIKE = frozenset({"OperatorGroup", "Subscription"})  # whoever made it, it serves as well


def first(obj: Manifest, there: Iterable[Manifest]) -> Manifest | None:
    """The object of another name that has the place of this one; None where it is free."""
    place, name = _PLACE[obj["kind"]], obj["metadata"]["name"]
    return next((one for one in there if one["metadata"]["name"] != name and place(one) == place(obj)), None)

"""Objects that may exist only once: an existing one stays, and no second one is created. Pure."""

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
"""What two objects of a kind can't share: OLM accepts one group per namespace and one subscription per
package, operators use one object, a pool of nodes has one configuration."""

KINDS = frozenset(_PLACE)
ALIKE = frozenset({"OperatorGroup", "Subscription"})  # one made by somebody else serves as well


def first(obj: Manifest, there: Iterable[Manifest]) -> Manifest | None:
    """The object with another name that takes the place of this one; None if the place is free."""
    place, name = _PLACE[obj["kind"]], obj["metadata"]["name"]
    return next(
        (other for other in there if other["metadata"]["name"] != name and place(other) == place(obj)), None
    )

"""Each slow node of a sweep with everything it is slow in: alone, with others, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.analyse.sweeps.figures import Nodes, Pairs
from assay.analyse.sweeps.slow_parts import slow_with


@dataclass(frozen=True)
class Suspect:
    """One node that is slow in some measurement.

    alone     measurement of the node by itself → its speed relative to comparable nodes, or to its baseline
    together  the same for its pairs with other nodes; None if they don't show it as slow
    partners  with how many partners it is then slow, and how many it has
    """

    node: str
    alone: Mapping[str, float] = field(default_factory=dict)
    together: float | None = None
    partners: tuple[int, int] = (0, 0)

    @property
    def losses(self) -> dict[str, float]:
        """Everything it is slow in, by measurement."""
        return {**self.alone, **({} if self.together is None else {"pairs": self.together})}


def suspects(
    nodes: Sequence[Nodes], pairs: Pairs | None, hosts: Mapping[str, Sequence[str]]
) -> tuple[Suspect, ...]:
    """The slow nodes, the slowest first. Links and racks are not included: no node causes them.

    hosts  system, whose name stands for a node measured alone → the node, as the only entry of a list
    """
    alone: dict[str, dict[str, float]] = {}
    for measurement in nodes:
        for system, ratio in _slow(measurement).items():
            alone.setdefault(hosts[system][0], {})[measurement.point.benchmark] = ratio
    together = {} if pairs is None else {slow.who[0]: slow.ratio for slow in pairs.blame.nodes}
    partners = {} if pairs is None else {n: slow_with(pairs.relative, n, r) for n, r in together.items()}
    slow_nodes = [
        Suspect(node, alone.get(node, {}), together.get(node), partners.get(node, (0, 0)))
        for node in dict.fromkeys([*alone, *together])
    ]
    return tuple(sorted(slow_nodes, key=lambda suspect: min(suspect.losses.values())))


def _slow(measurement: Nodes) -> dict[str, float]:
    """System → ratio of those that this measurement reports as slow."""
    among = {standing.node: standing.ratio for standing in measurement.crowd.standings if standing.slow}
    before = {change.node: change.ratio.value for change in measurement.changes if change.slower}
    return among | before

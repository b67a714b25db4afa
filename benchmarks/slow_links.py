"""How often a healthy pair matrix leads to blame, and how often a slow node, link, or rack is found.

`python benchmarks/slow_links.py` takes about a quarter of an hour; the seed is fixed. Nodes add normal or t3
noise of 1 % to their pairs, each pair adds its own 1 %, and each is measured once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from options import parse, sized
from slow_nodes import SEED, TWO_LAWS, Draw

from assay.analyse.sweeps.links import blame
from assay.analyse.sweeps.slow_parts import Blame, Pair
from assay.node_sweep import pair_rounds

SPREAD = 0.01

Names = tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """A cluster with this many nodes and rounds; `racks` 0: one. Without labels, nobody knows the racks."""

    nodes: int
    rounds: int
    racks: int = 0
    labels: bool = True


@dataclass(frozen=True)
class Fault:
    """What is slow, and by what share; nothing if all are None.

    kind  node; two: two nodes; half: half of a node's links, at least two; link; rack: its uplink; way:
          between two racks
    """

    loss: float = 0.0
    kind: str = ""


def measured(cluster: Cluster, fault: Fault, draw: Draw, number: int) -> tuple[Blame, set[Names], set[Names]]:
    """What is blamed in one drawn matrix, the names of the actual culprits, and the slow pairs."""
    random = np.random.default_rng([SEED, number])
    names = [f"n{at}" for at in range(cluster.nodes)]
    rack = {name: f"r{at * cluster.racks // cluster.nodes}" for at, name in enumerate(names)}
    effects = dict(zip(names, (SPREAD * draw(random, (cluster.nodes,))).tolist(), strict=True))
    met = [(a, b) for one in pair_rounds(names, cluster.rounds, seed=number) for a, b in one]
    own = (SPREAD * draw(random, (len(met),))).tolist()
    guilty, slow = _guilty(fault, met, rack, cluster)
    figures = {}
    for (a, b), noise in zip(met, own, strict=True):
        figures[a, b] = [math.exp(effects[a] + effects[b] + noise) * (1 - fault.loss * ((a, b) in slow))]
    return blame(figures, "higher", groups=rack if cluster.racks and cluster.labels else None), guilty, slow


def _guilty(
    fault: Fault, met: list[Pair], rack: dict[str, str], cluster: Cluster
) -> tuple[set[Names], set[Names]]:
    """The names of the culprits, and the pairs that they slow down."""
    own = [pair for pair in met if "n1" in pair]
    if fault.kind == "node":
        return {("n1",)}, {*own}
    if fault.kind == "two":
        return {("n1",), ("n5",)}, {pair for pair in met if {"n1", "n5"} & {*pair}}
    if fault.kind == "half":
        return {*own[: (len(own) + 1) // 2]}, {*own[: (len(own) + 1) // 2]}
    if fault.kind == "link":
        return {met[1]}, {met[1]}
    sides = {"rack": {"r1"}, "way": {"r0", "r1"}}.get(fault.kind)
    if sides is None:
        return set(), set()
    across = {(a, b) for a, b in met if rack[a] != rack[b] and sides <= {rack[a], rack[b]}}
    if not cluster.labels:
        return {tuple(sorted(node for node in rack if rack[node] in sides))}, {*across}
    return {tuple(sorted(sides))}, {*across}


def shares(cluster: Cluster, fault: Fault, draw: Draw, times: int) -> tuple[float, float]:
    """The share of matrices in which just the slow part was blamed, and in which a wrong one was.

    A link that is slow because of a rack is no wrong one: that says only which pairs are slow. A set of nodes
    is none if all of those that are known to belong to it do.
    """
    found = wrong = 0
    for number in range(times):
        seen, guilty, slow = measured(cluster, fault, draw, number)
        named = {part.who for part in (*seen.groups, *seen.together, *seen.nodes, *seen.links)}
        sets = {part.who for part in seen.together if _within({*part.who} - {*part.one_of}, guilty)}
        found += bool(guilty) and guilty <= named
        wrong += bool(named - guilty - slow - sets)
    return found / times, wrong / times


def _within(nodes: set[str], guilty: set[Names]) -> bool:
    return any(nodes <= {*names} for names in guilty)


def main() -> None:
    """Print the tables of docs/explanation/statistics.md."""
    options = parse(sized(__doc__, times=(200, 1, "matrices with a fault; twice as many healthy ones")))
    clusters = [Cluster(8, 3), Cluster(16, 3), Cluster(16, 7), Cluster(64, 3), Cluster(64, 5)]
    clusters.append(Cluster(256, 5))
    unknown = [Cluster(24, 5, 3, False), Cluster(32, 5, 4, False), Cluster(64, 3, 8, False)]
    unknown += [Cluster(64, 5, 8, False), Cluster(256, 5, 16, False)]
    racked = [Cluster(12, 5, 3), Cluster(24, 5, 3), Cluster(64, 5, 8), Cluster(256, 5, 16)]
    for law, draw in TWO_LAWS.items():
        for cluster in [*clusters, *racked]:
            _, wrong = shares(cluster, Fault(), draw, 2 * options.times)
            print(f"{law:7} {cluster}: anything blamed in a healthy one {100 * wrong:.1f} %", flush=True)
        for kind, where in [
            *((kind, clusters) for kind in ("node", "two", "half", "link")),
            ("rack", [*racked, *unknown]),
            ("way", racked),
            ("node", racked[2:3]),
            ("link", racked[2:3]),
        ]:
            for cluster in where:
                rates = [
                    shares(cluster, Fault(loss, kind), draw, options.times) for loss in (0.05, 0.1, 0.2, 0.4)
                ]
                told = "  ".join(f"{100 * found:.0f} / {100 * wrong:.0f}" for found, wrong in rates)
                print(f"{law:7} {cluster}: {kind}, loss 5, 10, 20, 40 %: found / else {told}", flush=True)


if __name__ == "__main__":
    main()

"""How often a healthy ring of nodes is called slow, and how often a slow one is.

`python benchmarks/slow_rings.py` takes a minute; the seed is fixed. Each run varies by 2 %, normal or t3; a
ring is as fast as the slowest of its measured links, minus the loss of every ring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from options import parse, sized
from slow_nodes import SEED, TWO_LAWS, Draw

from assay.analyse.sweeps.nodes import BORNE, slow_rings
from assay.node_sweep import pair_rounds

SPREAD, OF_LINKS = 0.02, 0.01  # of repeated runs; of different links


@dataclass(frozen=True)
class Cluster:
    """The numbers of rings, of their nodes, of rounds of pairs among all nodes, and of runs of each."""

    rings: int
    nodes: int
    rounds: int = 5
    runs: int = 3


def named(cluster: Cluster, loss: float, lost: float, draw: Draw, number: int) -> tuple[bool, bool]:
    """Whether the slow ring is named, and whether any other is.

    loss  of every ring over its slowest link; lost: additional loss of the first ring
    """
    random = np.random.default_rng([SEED, number])
    names = [f"n{at}" for at in range(cluster.rings * cluster.nodes)]
    met = [pair for one in pair_rounds(names, cluster.rounds, seed=number) for pair in one]
    speeds = dict(zip(met, np.exp(OF_LINKS * random.standard_normal(len(met))).tolist(), strict=True))

    def runs(speed: float) -> list[float]:
        noise: list[float] = draw(random, (cluster.runs,)).tolist()
        return [speed * math.exp(SPREAD * one) for one in noise]

    pairs = {(a, b): runs(speed) for (a, b), speed in speeds.items()}
    rings = {}
    for at in range(cluster.rings):
        nodes = tuple(names[at * cluster.nodes : (at + 1) * cluster.nodes])
        members = frozenset(nodes)
        own = [speed for pair, speed in speeds.items() if members.issuperset(pair)]
        rings[nodes] = runs(min(own, default=1.0) * (1 - loss) * (1 - lost * (at == 0)))
    found = slow_rings(rings, pairs, "higher", names={nodes: nodes[0] for nodes in rings})
    slow = [ring.slower for ring in found]
    return slow[0], any(slow[1:]) or (lost == 0 and slow[0])


def shares(cluster: Cluster, loss: float, lost: float, draw: Draw, times: int) -> tuple[float, float]:
    """The share of sweeps in which the slow ring was named, and in which a healthy one was."""
    seen = [named(cluster, loss, lost, draw, number) for number in range(times)]
    return sum(found for found, _ in seen) / times, sum(wrong for _, wrong in seen) / times


def main() -> None:
    """Print the table of docs/how-to/sweep.md."""
    options = parse(sized(__doc__, times=(200, 1, "sweeps with a slow ring; twice as many healthy ones")))
    for law, draw in TWO_LAWS.items():
        for cluster in (Cluster(1, 16), Cluster(8, 16), Cluster(16, 32)):
            for loss in (0.1, BORNE):
                _, wrong = shares(cluster, loss, 0.0, draw, 2 * options.times)
                print(f"{law:7} {cluster}, all lose {loss:.0%}: a healthy ring is named in {wrong:.1%}")
            rates = [f"{shares(cluster, 0.1, lost, draw, options.times)[0]:.0%}" for lost in (0.1, 0.2, 0.4)]
            print(f"{law:7} {cluster}, all lose 10 %, one 10, 20, 40 % more: named in {', '.join(rates)}")


if __name__ == "__main__":
    main()

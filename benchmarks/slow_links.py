"""How often a healthy pair matrix leads to blame, and how often a slow node, link, or rack is found.

`python benchmarks/slow_links.py` takes a few minutes; the seed is fixed. Nodes add normal or t3 noise of 1 %
to their pairs, each pair adds its own 1 %, and each is measured once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from options import parse, sized
from slow_nodes import SEED, TWO_LAWS, Draw

from assay.analyse.sweeps.links import blame
from assay.analyse.sweeps.slow_parts import Blame
from assay.cluster import rounds

SPREAD = 0.01


@dataclass(frozen=True)
class Cluster:
    """A cluster with this many nodes and rounds; `racks` 0: racks unknown."""

    nodes: int
    rounds: int
    racks: int = 0


@dataclass(frozen=True)
class Fault:
    """What is slow, and by what share; nothing if all are None.

    node  index of a node
    link  index of a pair in the order measured
    rack  index of a rack whose uplink is slow
    """

    loss: float = 0.0
    node: int | None = None
    link: int | None = None
    rack: int | None = None


def measured(cluster: Cluster, fault: Fault, draw: Draw, number: int) -> tuple[Blame, tuple[str, ...]]:
    """What is blamed in one drawn matrix, and the names of the actual culprits."""
    random = np.random.default_rng([SEED, number])
    names = [f"n{at}" for at in range(cluster.nodes)]
    rack = {name: f"r{at * cluster.racks // cluster.nodes}" for at, name in enumerate(names)}
    effects = dict(zip(names, (SPREAD * draw(random, (cluster.nodes,))).tolist(), strict=True))
    met = [pair for one in rounds.pairs(names, cluster.rounds, seed=number) for pair in one]
    own = (SPREAD * draw(random, (len(met),))).tolist()
    guilty = _guilty(fault, names, met)
    figures = {}
    for (a, b), noise in zip(met, own, strict=True):
        crossing = (rack[a] in guilty) != (rack[b] in guilty)
        hit = crossing or (a, b) == guilty or (fault.node is not None and guilty[0] in (a, b))
        figures[a, b] = [math.exp(effects[a] + effects[b] + noise) * (1 - fault.loss * hit)]
    return blame(figures, "higher", groups=rack if cluster.racks else None), guilty


def _guilty(fault: Fault, names: list[str], met: list[tuple[str, ...]]) -> tuple[str, ...]:
    if fault.node is not None:
        return (names[fault.node],)
    if fault.link is not None:
        return met[fault.link]
    return () if fault.rack is None else (f"r{fault.rack}",)


def shares(cluster: Cluster, fault: Fault, draw: Draw, times: int) -> tuple[float, float]:
    """The share of matrices in which the slow part was blamed, and in which anything else was."""
    found = wrong = 0
    for number in range(times):
        seen, guilty = measured(cluster, fault, draw, number)
        named = [slow.who for slow in (*seen.groups, *seen.nodes, *seen.links)]
        found += guilty in named
        wrong += any(who != guilty for who in named)
    return found / times, wrong / times


def main() -> None:
    """Print the tables of docs/explanation/statistics.md."""
    options = parse(sized(__doc__, times=(200, 1, "matrices with a fault; twice as many healthy ones")))
    clusters = [Cluster(16, 3), Cluster(16, 7), Cluster(64, 3), Cluster(64, 5), Cluster(256, 5)]
    racked = [Cluster(64, 5, 8), Cluster(256, 5, 16)]
    for law, draw in TWO_LAWS.items():
        for cluster in [*clusters, *racked]:
            _, wrong = shares(cluster, Fault(), draw, 2 * options.times)
            print(f"{law:7} {cluster}: anything blamed in a healthy one {100 * wrong:.1f} %", flush=True)
        faults: list[tuple[str, list[Cluster], Callable[[float], Fault]]] = [
            ("node", clusters, lambda loss: Fault(loss, node=1)),
            ("link", clusters, lambda loss: Fault(loss, link=1)),
            ("rack", racked, lambda loss: Fault(loss, rack=1)),
        ]
        for what, of, fault in faults:
            for cluster in of:
                rates = [shares(cluster, fault(loss), draw, options.times) for loss in (0.05, 0.1, 0.2, 0.4)]
                told = "  ".join(f"{100 * found:.0f} / {100 * wrong:.0f}" for found, wrong in rates)
                print(f"{law:7} {cluster}: {what}, loss 5, 10, 20, 40 %: found / else {told}", flush=True)


if __name__ == "__main__":
    main()

"""Few nodes, with pairs compared with a baseline: how often healthy ones are blamed, and what is found.

`python benchmarks/slow_pairs_before.py` takes a minute; the seed is fixed. Runs have a spread of 1 %.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from options import parse, sized
from slow_nodes import SEED, Draw, normal, t3

from assay.analyse.sweeps.slow_parts import Pair
from assay.analyse.sweeps.verdicts import pairs_before

SPREAD, MARGIN = 0.01, 0.05
LAWS: dict[str, Draw] = {"normal": normal, "t3": t3}
Runs = dict[Pair, list[float]]


def drawn(nodes: int, runs: int, draw: Draw, number: int, guilty: set[int], loss: float) -> Runs:
    """All pairs of this many nodes; pairs that contain all of `guilty` lose this share."""
    random = np.random.default_rng([SEED, nodes, runs, number])
    found = {}
    for a, b in combinations(range(nodes), 2):
        speed = 1 - loss if guilty and guilty <= {a, b} else 1.0
        found[f"n{a}", f"n{b}"] = [speed * float(np.exp(SPREAD * one)) for one in draw(random, (runs,))]
    return found


def shares(
    nodes: int, runs: int, draw: Draw, guilty: set[int], loss: float, times: int
) -> tuple[float, float]:
    """The share of sweeps in which the guilty part was blamed, and in which another node or link was."""
    who = {f"n{at}" for at in guilty}
    found = wrong = 0
    for number in range(times):
        before = drawn(nodes, runs, draw, 2 * number, set(), 0.0)
        now = drawn(nodes, runs, draw, 2 * number + 1, guilty, loss)
        _, seen = pairs_before(now, before, "higher", MARGIN)
        told = [{*slow.who} for slow in (*seen.nodes, *seen.links)]
        found += who in (told if nodes > 2 else [{*slow.who} for slow in seen.pairs])
        wrong += any(one != who for one in told)
    return 100 * found / times, 100 * wrong / times


def borne(nodes: int, runs: int, draw: Draw, times: int) -> float:
    """Share of sweeps that blame anything if every pair lost just the tolerated share: the worst case."""
    named = 0
    for number in range(times):
        before = drawn(nodes, runs, draw, 2 * number, set(), 0.0)
        now = drawn(nodes, runs, draw, 2 * number + 1, set(), 0.0)
        worst = {pair: [(1 - MARGIN) * value for value in values] for pair, values in now.items()}
        _, seen = pairs_before(worst, before, "higher", MARGIN)
        named += bool(seen.nodes or seen.links or seen.pairs)
    return 100 * named / times


def main() -> None:
    """Print the rates."""
    times = parse(sized(__doc__, times=(400, 2, "sweeps for each rate"))).times
    for law, draw in LAWS.items():
        for nodes in (2, 6):
            for runs in (3, 5):
                wrong = borne(nodes, runs, draw, times)
                print(
                    f"{law:7} {nodes} nodes, {runs} runs: anything blamed at the margin {wrong:.1f} %", end=""
                )
                for what, guilty in (("link", {0, 1}), ("node", {0}))[: nodes - 1]:
                    rates = [shares(nodes, runs, draw, guilty, loss, times) for loss in (0.1, 0.2, 0.4)]
                    told = "  ".join(f"{found:.0f} / {wrong:.0f}" for found, wrong in rates)
                    print(f"; {what}, loss 10, 20, 40 %: found / else {told}", end="", flush=True)
                print()


if __name__ == "__main__":
    main()

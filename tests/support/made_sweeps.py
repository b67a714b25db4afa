"""Sweeps as they would come out: nodes of 1 % spread met in rounds, one node slow alone and one link."""

from __future__ import annotations

import random

from assay.analyse.sweeps.verdicts import SweepFigure, SweepSession, judge_sweep
from assay.node_sweep import most_rounds, pair_rounds
from assay.records import Point
from assay.view.contents import Failure, Recipe
from assay.view.sweep import SweepReport

SPREAD = 0.01
ALONE = (("matmul", "flop_rate", "FLOP/s"), ("membw", "bandwidth", "B/s"), ("disk", "read_bandwidth", "B/s"))


def sweep(count: int, *, faults: bool = True, met: int = 5, prefix: str = "gpu-") -> SweepReport:
    """So many nodes; with faults the second computes at two thirds, and the first pair's link is halved."""
    order = random.Random(count)
    names = [f"{prefix}{at}" for at in range(1, count + 1)]
    own = {name: order.gauss(0, SPREAD) for name in names}
    figures = {}
    for benchmark, metric, unit in ALONE:
        values = {name: [1e9 * (1 + own[name] + order.gauss(0, SPREAD)) for _ in range(3)] for name in names}
        if faults and benchmark == "matmul":
            values[names[1]] = [0.66 * value for value in values[names[1]]]
        figures[benchmark] = SweepFigure(
            Point(benchmark, "1x1", metric, unit, "higher", {}), "higher", values
        )
    alone = {name: (name,) for name in names}
    met = min(met, most_rounds(count))
    pairs = [pair for one in pair_rounds(names, met) for pair in one]
    speeds = {
        "--".join(pair): [1e9 * (1 + own[pair[0]] + own[pair[1]] + order.gauss(0, SPREAD)) for _ in range(3)]
        for pair in pairs
    }
    if faults:
        speeds["--".join(pairs[0])] = [5e8, 5.1e8, 4.9e8]
    exchange = SweepFigure(Point("allreduce", "2x1x2", "busbw", "B/s", "higher", {}), "higher", speeds)
    hosts = {"--".join(pair): pair for pair in pairs}
    return SweepReport(
        title=f"Sweep of {count} nodes",
        verdicts=judge_sweep(
            SweepSession("s1", figures, alone),
            SweepSession("s1", {"allreduce": exchange}, hosts),
            [],
            hosts=alone,
            margin=0.05,
        ),
        runs=3 * (3 * count + len(pairs)),
        about=[("Nodes", str(count)), ("Reached through", "kubernetes")],
        keep_off={"taints: pods go elsewhere while there is room": f"kubectl taint node {names[1]} …"}
        if faults
        else {},
        failures=[Failure(names[0], "disk-1x1-gpu-1-r02", "rank 0 exited 1")],
        recipes=[
            Recipe(
                "sweep-nodes/s1",
                "assay sweep lab",
                seed=1,
                plan_digest="aa",
                suite_digest="bb",
                assay_version="0.1.0",
            )
        ],
    )

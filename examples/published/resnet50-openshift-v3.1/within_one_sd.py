"""How often a slower system is "within one standard deviation": `python within_one_sd.py LOGS…`.

Prints, for each set of logs, the band that this test allows, and how often a system that is truly slower
passes it. The runs of both sides are drawn, with replacement, from that one set, and those of one side take
longer by the stated share.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np

import assay

SLOWER = (0.0, 0.1, 0.2, 0.3, 0.5)
DRAWS, SEED = 20_000, 1


def passes(minutes: Sequence[float], slower: float) -> float:
    """Share of sets from a system slower by this share whose mean is within one standard deviation."""
    dice = np.random.default_rng(SEED)
    size = (DRAWS, len(minutes))
    a, b = dice.choice(minutes, size), dice.choice(minutes, size) * (1 + slower)
    return float(np.mean(np.abs(b.mean(axis=1) - a.mean(axis=1)) <= a.std(axis=1, ddof=1)))


def main(paths: Sequence[str]) -> None:
    """Print a line for each set."""
    print("benchmark  runs   mean, min   one SD, min   band, %   passes, % of sets, if slower by")
    print(" " * 55 + "".join(f"{100 * slower:7.0f} %" for slower in SLOWER))
    for scored in assay.score(*paths):
        minutes = [run.minutes for run in scored.runs if run.minutes is not None]
        mean, deviation = statistics.fmean(minutes), statistics.stdev(minutes)
        band = 100 * deviation / mean
        shares = "".join(f"{100 * passes(minutes, slower):9.1f}" for slower in SLOWER)
        moments = f"{mean:9.2f}   {deviation:11.2f}   ±{band:6.1f}"
        print(f"{scored.benchmark:9}  {len(minutes):4}   {moments}   {shares}")


if __name__ == "__main__":
    main(sys.argv[1:])

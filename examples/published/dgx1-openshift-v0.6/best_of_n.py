"""How much the best of n timings gains over an official score: `python best_of_n.py LOGS…`.

The official score drops the fastest and the slowest run and averages the rest. For each set of logs that has
a score, runs are drawn from the set itself. Both sides are then one system, so any lead of the best of n is
due to the method. The expectation over all draws (with replacement) is exact, not simulated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import assay

DRAWN = (1, 2, 3, 5, 10)


def expected_best(minutes: Sequence[float], n: int) -> float:
    """Mean of the fastest of n runs drawn with replacement, minutes.

    The fastest drawn is slower than the k fastest of all N with probability ((N − k) / N)^n.

    >>> expected_best([10.0, 20.0], 1), expected_best([10.0, 20.0], 2)
    (15.0, 12.5)
    """
    size = len(minutes)
    slower = [((size - k) / size) ** n for k in range(size + 1)]
    return sum(time * (slower[k] - slower[k + 1]) for k, time in enumerate(sorted(minutes)))


def main(paths: Sequence[str]) -> None:
    """Print, for each set with a score, by how much its own best of n beats that score, in percent."""
    print("own runs against own score, % faster   best " + "".join(f"  of {n:2}" for n in DRAWN))
    for scored in assay.score(*paths):
        score = scored.score.minutes
        if score is None:
            print(f"{scored.benchmark}: no score from {len(scored.runs)} runs")
            continue
        minutes = [run.minutes for run in scored.runs if run.minutes is not None]
        gains = (
            100 * (1 - time / score) for time in (min(minutes), *(expected_best(minutes, n) for n in DRAWN))
        )
        name = f"{scored.benchmark}, {score:.2f} min, {len(minutes)} runs"
        print(f"{name:38}" + "".join(f"{gain:6.2f} " for gain in gains).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])

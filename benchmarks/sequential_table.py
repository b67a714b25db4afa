"""The table of `analyse/statistics/sequential.py`, simulated: p at every look for each maximum n.

Many sequences of runs without any difference are drawn, and the two-sided p is computed at every look. The
table's p is the value that 5 % of sequences go below at any look up to the maximum. Exits with 1 if the
table in the code differs from the simulated one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from assay.analyse.statistics import sequential
from assay.analyse.statistics.sequential import ALPHA, LOOKS

SEED = 20260301
REPLICATES = 1_000_000
CHUNK = 20_000  # replicates at a time, to fit into the processor's cache
QUICK = 50_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Two sides at a look of n runs: A has n, B has `counts` times n; `spread` is B's over A's."""

    counts: float
    spread: float


# Welch's t errs most if the shorter side is noisier and makes up 85 to 98 % of the variance, and errs more
# the more runs the other side has.
MOST_COUNTS = 4.0
EQUAL = tuple(Design(1, ((1 - share) / share) ** 0.5) for share in (0.9, 0.95, 0.98))
UNEQUAL = tuple(
    Design(MOST_COUNTS, (MOST_COUNTS * (1 - share) / share) ** 0.5) for share in (0.85, 0.9, 0.95)
)


def moments(
    rng: np.random.Generator, counts: Sequence[int], sd: float, sets: int
) -> list[tuple[Floats, Floats]]:
    """Mean and variance of the first n of each sequence, for every n of `counts`."""
    total, squares, done, found = np.zeros(sets), np.zeros(sets), 0, []
    for n in counts:
        new = rng.normal(0, sd, (n - done, sets))
        total, squares, done = total + new.sum(0), squares + (new * new).sum(0), n
        mean = total / n
        found.append((mean, np.maximum(squares - n * mean * mean, 0) / (n - 1)))
    return found


def paired_p(rng: np.random.Generator, sets: int) -> Floats:
    """Two-sided p at each look: looks × sets."""
    at = moments(rng, LOOKS, 1.0, sets)
    return np.array(
        [2 * stdtr(n - 1, -np.abs(m) / np.sqrt(v / n)) for n, (m, v) in zip(LOOKS, at, strict=True)]
    )


def welch_p(rng: np.random.Generator, sets: int, design: Design) -> Floats:
    """Two-sided p at each look: looks × sets."""
    more = [int(np.ceil(design.counts * n)) for n in LOOKS]
    at_a, at_b = moments(rng, LOOKS, 1.0, sets), moments(rng, more, design.spread, sets)
    rows = []
    for n_a, n_b, (mean_a, var_a), (mean_b, var_b) in zip(LOOKS, more, at_a, at_b, strict=True):
        a, b = var_a / n_a, var_b / n_b
        degrees = (a + b) ** 2 / (a**2 / (n_a - 1) + b**2 / (n_b - 1))
        rows.append(2 * stdtr(degrees, -np.abs(mean_a - mean_b) / np.sqrt(a + b)))
    return np.array(rows)


def calibrated(design: Design | None, replicates: int) -> Floats:
    """The p for each maximum of `LOOKS` under one design; None is paired."""
    least = []
    for number in range(replicates // CHUNK):
        rng = np.random.default_rng((SEED, number))
        found = paired_p(rng, CHUNK) if design is None else welch_p(rng, CHUNK, design)
        least.append(np.minimum.accumulate(found, axis=0))
    found_p: Floats = np.quantile(np.concatenate(least, axis=1), ALPHA, axis=1)
    return found_p


def tables(replicates: int) -> dict[str, dict[int, float]]:
    """The three tables, by their names in `assay.analyse.statistics.sequential`."""
    found = {
        "_PAIRED": calibrated(None, replicates),
        "_UNPAIRED": np.min([calibrated(d, replicates) for d in EQUAL], axis=0),
        "_UNPAIRED_UNEQUAL": np.min([calibrated(d, replicates) for d in UNEQUAL], axis=0),
    }
    return {
        name: {n: rounded_down(p) for n, p in zip(LOOKS[1:], values[1:].tolist(), strict=True)}
        for name, values in found.items()
    }


def rounded_down(p: float) -> float:
    """Round to three significant digits, toward the safe side."""
    digits = 2 - int(np.floor(np.log10(p)))
    return float(round(np.floor(p * 10**digits) / 10**digits, digits))


def main() -> None:
    """Print the tables; exit 1 if a committed p is larger than the simulation allows."""
    options = argparse.ArgumentParser(description=__doc__)
    words = f"{QUICK:,} replicates, agreement within 5 %%"
    options.add_argument("--quick", "--smallest", action="store_true", help=words)
    quick = options.parse_args().quick
    replicates, tolerance = (QUICK, 0.05) if quick else (REPLICATES, 0.01)
    differs = False
    for name, found in tables(replicates).items():
        print(f"{name} = {found}")
        committed: dict[int, float] = getattr(sequential, name)
        differs |= any(abs(committed[n] / p - 1) > tolerance for n, p in found.items())
    print(f"seed {SEED}, {replicates:,} replicates; the committed table {'differs' if differs else 'agrees'}")
    sys.exit(int(differs))


if __name__ == "__main__":
    main()

"""The price of a step in a history, recomputed, and how reliable detected steps are.

`python benchmarks/history.py` prints the table in `analyse/history.py`, then how often a step is reported
if there is none, how often one is found, and how often the intervals of its place and size cover the truth.
It takes about a minute; the seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from options import parse, sized

from assay.analyse.history import SHORTEST_STRETCH, most_steps, split

SEED = 20260301
LENGTHS = {6: 200_000, 8: 200_000, 12: 100_000, 20: 100_000, 50: 20_000, 100: 8_000, 200: 3_000, 400: 1_000}
Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Floats]


def residuals(x: Floats, most: int) -> Floats:
    """Least residual sums of squares of histories `x[replicate, session]`, for 0 to `most` steps.

    The same search as the library's, for many histories at once.
    """
    replicates, n = x.shape
    zero = np.zeros((replicates, 1))
    sums, squares = (np.concatenate([zero, np.cumsum(part, axis=1)], axis=1) for part in (x, x * x))
    best = np.full((most + 1, replicates, n + 1), np.inf)
    for end in range(SHORTEST_STRETCH, n + 1):
        begins = np.arange(end - SHORTEST_STRETCH + 1)
        totals = sums[:, [end]] - sums[:, begins]
        cost = np.maximum(squares[:, [end]] - squares[:, begins] - totals**2 / (end - begins), 0)
        best[0, :, end] = cost[:, 0]
        for steps in range(1, most + 1):
            best[steps, :, end] = (best[steps - 1][:, begins] + cost).min(axis=1)
    found: Floats = best[:, :, n].T
    return found


def price(n: int, replicates: int) -> float:
    """The price of a step such that 5 % of histories of n sessions without a step show one."""
    random = np.random.default_rng([SEED, n])
    statistics = []
    for _ in range(max(replicates // 5_000, 1)):
        rss = residuals(random.standard_normal((min(replicates, 5_000), n)), most_steps(n))
        steps = np.arange(1, most_steps(n) + 1)
        statistics.append((n * np.log(rss[:, [0]] / rss[:, 1:]) / steps).max(axis=1))
    return float(np.quantile(np.concatenate(statistics), 0.95))


def normal(random: np.random.Generator, replicates: int, n: int) -> Floats:
    """Independent normal session means."""
    return random.standard_normal((replicates, n))


def heavy(random: np.random.Generator, replicates: int, n: int) -> Floats:
    """Student's t with 3 degrees of freedom."""
    return random.standard_t(3, (replicates, n))


def dependent(random: np.random.Generator, replicates: int, n: int) -> Floats:
    """Each session resembles the one before: correlation 0.5."""
    x = random.standard_normal((replicates, n))
    for at in range(1, n):
        x[:, at] = 0.5 * x[:, at - 1] + math.sqrt(0.75) * x[:, at]
    return x


def false_alarms(draw: Draw, n: int, replicates: int) -> float:
    """Share of histories without a step in which one is reported."""
    histories = draw(np.random.default_rng([SEED, n]), replicates, n)
    return sum(bool(split(row).steps) for row in histories.tolist()) / replicates


def worth(n: int, jump: float, replicates: int) -> tuple[float, float, float]:
    """How often a step of this many spreads is found; of those, how often its place and size are covered."""
    random = np.random.default_rng([SEED, n])
    found = placed = sized = 0
    for _ in range(replicates):
        place = int(random.integers(SHORTEST_STRETCH, n - SHORTEST_STRETCH + 1))
        values = 0.01 * random.standard_normal(n)
        values[place:] += 0.01 * jump
        steps = split(values.tolist()).steps
        if not steps:
            continue
        step = min(steps, key=lambda step: abs(step.before - place))
        low, high = step.ratio.low or 0.0, step.ratio.high or math.inf
        found += 1
        placed += step.earliest <= place <= step.latest
        sized += low <= math.exp(0.01 * jump) <= high
    return found / replicates, placed / max(found, 1), sized / max(found, 1)


def main() -> None:
    """Print the three tables."""
    fewer = parse(sized(__doc__, fewer=(1, 200, "times fewer histories than documented"))).fewer
    print("price of a step, for 5 % false alarms")
    for n, replicates in LENGTHS.items():
        print(f"  {n:4} sessions  {price(n, max(replicates // fewer, 5)):6.2f}")
    print("a step is reported if there is none: normal, t3, correlation 0.5")
    for n in (6, 12, 20, 40, 100):
        rates = [100 * false_alarms(draw, n, 2_000 // fewer) for draw in (normal, heavy, dependent)]
        print(f"  {n:4} sessions  " + "  ".join(f"{rate:5.1f} %" for rate in rates))
    print("a step of 2, 3, 5 spreads: found; its place covered, its size covered if found")
    for n in (8, 12, 20, 40):
        for jump in (2, 3, 5):
            shares = [100 * share for share in worth(n, jump, 1_000 // fewer)]
            print(f"  {n:4} sessions, {jump} spreads  " + "  ".join(f"{share:5.1f} %" for share in shares))


if __name__ == "__main__":
    main()

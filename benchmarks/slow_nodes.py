"""The table of `analyse/outliers.py`, made again, and how often a healthy node is named and a slow one found.

`python benchmarks/slow_nodes.py` takes a few minutes; the seed is fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from options import parse, sized

from assay.analyse import outliers
from assay.analyse.outliers import FALSE_ALARM, FEWEST, MOST, lesser

SEED = 20260301
SIZES = (FEWEST, 15, 19, 23, 27, 31, 39, 47, 63, 79, 80, 120, 200, 500, 1_000, MOST)
MOST_CROWDS = 200_000
CHUNK = 2_000_000

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Independent normal values of variance 1."""
    return random.standard_normal(shape)


def laplace(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Exponential tails on both sides, variance 1."""
    return random.laplace(scale=0.5**0.5, size=shape)


def t3(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Student's t with 3 degrees of freedom, variance 1."""
    return random.standard_t(3, shape) / 3**0.5


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A longer slow side than fast side: minus a gamma of shape 16 (skewness −0.5), variance 1."""
    return -random.gamma(16.0, 0.25, shape)


TWO_LAWS: dict[str, Draw] = {"normal": normal, "t3": t3}
LAWS: dict[str, Draw] = {"normal": normal, "Laplace": laplace, "t3": t3}


def ratios(values: Floats) -> Floats:
    """Greatest slow deviation over the fast side's reach, for many crowds `values[crowd, member]` at once."""
    n = values.shape[1]
    below = n - lesser(n)
    centre = np.median(values, axis=1)
    fast = np.partition(values, below, axis=1)[:, below:]
    reach = (fast.max(axis=1) - centre) ** 2 / (fast[:, 0] - centre)
    found: Floats = (centre - values.min(axis=1)) / reach
    return found


def drawn(draw: Draw, members: int, crowds: int) -> Floats:
    """The ratios of so many healthy crowds."""
    random = np.random.default_rng([SEED, members])
    at_once = max(min(CHUNK // members, crowds), 1)
    return np.concatenate([ratios(draw(random, (at_once, members))) for _ in range(crowds // at_once)])


def table(draws: int) -> dict[int, tuple[float, ...]]:
    """Members → the ratio that the worst law exceeds at each tabulated rate."""
    upper = [1 - rate for rate in outliers.RATES]
    found = {}
    for members in SIZES:
        crowds = max(min(draws // members, MOST_CROWDS), 1)
        worst = np.max([np.quantile(drawn(law, members, crowds), upper) for law in LAWS.values()], axis=0)
        found[members] = tuple(float(np.ceil(100 * ratio) / 100) for ratio in worst)
    return found


def false_alarms(draw: Draw, members: int, runs: int, between: float, crowds: int) -> float:
    """Share of healthy crowds of which one is named.

    runs     of each member, whose median counts
    between  healthy members' standard deviation, where a run's is 1
    """
    random = np.random.default_rng([SEED, members, runs, 1])
    limit = outliers.constant(members, FALSE_ALARM)
    named = 0
    for _ in range(crowds):
        own = between * draw(random, (1, members))
        named += int(ratios(np.median(own[:, :, None] + draw(random, (1, members, runs)), axis=2))[0] > limit)
    return named / crowds


def found(draw: Draw, members: int, runs: int, loss: float, slow: int, crowds: int) -> float:
    """Share of slow members that are named; each is `loss` standard deviations of one run too slow."""
    random = np.random.default_rng([SEED, members, runs, 2])
    named = 0
    for _ in range(crowds):
        values = np.median(draw(random, (members, runs)), axis=1)
        values[:slow] -= loss
        named += sum(at < slow for at in outliers.too_low(values.tolist()).low)
    return named / crowds / slow


def report(crowds: int) -> None:
    """False alarms and power as in docs/statistics.md."""
    laws = {**LAWS, "skewed": skewed}
    print(f"of {crowds} healthy sweeps, those that name a node, %: " + ", ".join(laws))
    for members in (8, 15, 64, 256, 1_000):
        for runs in (1, 3, 5):
            rates = [100 * false_alarms(law, members, runs, 1.0, crowds) for law in laws.values()]
            print(f"  {members:5} nodes, {runs} runs each  " + "  ".join(f"{rate:5.1f}" for rate in rates))
    print("of slow nodes, 1 % of all, those that are named, %: losses of 3, 4, 6, 8, 12 spreads of a run")
    for name, law in LAWS.items():
        for members in (8, 64, 1_000):
            for runs in (1, 3, 5):
                slow, times = max(members // 100, 1), max(crowds // 5, 1)
                shares = [100 * found(law, members, runs, loss, slow, times) for loss in (3, 4, 6, 8, 12)]
                print(
                    f"  {name:8} {members:5} nodes, {runs} runs  "
                    + "  ".join(f"{share:5.1f}" for share in shares)
                )


def main() -> None:
    """Print the table and what it is worth."""
    parser = sized(
        __doc__,
        draws=(40_000_000, 20_000, "values for each size and law"),
        crowds=(2_000, 10, "healthy sweeps for each rate"),
    )
    parser.add_argument("--table", action="store_true", help="only the table")
    options = parse(parser)
    print("_TABLE = {")
    for members, row in table(options.draws).items():
        print(f"    {members}: {row},")
    print("}")
    if not options.table:
        report(options.crowds)


if __name__ == "__main__":
    main()

"""False alarms and power of the tests among the doubts, by simulation: `python benchmarks/doubts.py`.

Prints the table of assay/analyse/doubts/rates.py. With --critical, the values that two modes must
exceed in assay/analyse/statistics/trouble.py. Every set is one side alone, or the log-ratios of paired
blocks: the level of a test there. Each of two unpaired sides has half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from options import parse, sized

from assay.analyse.doubts.rates import RUNS
from assay.analyse.doubts.series import is_no_gain, is_slow_start, start
from assay.analyse.points.replication import LEVEL
from assay.analyse.statistics import trouble

SETS = 10_000
Rows = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Rows]
Test = Callable[[Sequence[float]], bool]


def normal(rng: np.random.Generator, sets: int, n: int) -> Rows:
    """Independent runs, spread 1."""
    return rng.normal(size=(sets, n))


def t3(rng: np.random.Generator, sets: int, n: int) -> Rows:
    """Independent runs with heavy tails."""
    return rng.standard_t(3, size=(sets, n))


def drifting(spreads: float) -> Draw:
    """From this many spreads below the middle to the same number above it."""
    return lambda rng, sets, n: normal(rng, sets, n) + np.linspace(-spreads, spreads, n)


def autocorrelated(rng: np.random.Generator, sets: int, n: int) -> Rows:
    """Each run resembles the one before by 0.5, spread 1."""
    runs = normal(rng, sets, n)
    for at in range(1, n):
        runs[:, at] = 0.5 * runs[:, at - 1] + np.sqrt(0.75) * runs[:, at]
    return runs


def two_groups(spreads: float) -> Draw:
    """Each run falls into one of two groups that are this many spreads apart."""
    return lambda rng, sets, n: normal(rng, sets, n) + spreads * rng.integers(0, 2, size=(sets, n))


def one_off(spreads: float) -> Draw:
    """One run is this many spreads off."""
    return lambda rng, sets, n: normal(rng, sets, n) + spreads * (np.arange(n) == n // 2)


def windows(slow: float, noise: Draw = normal) -> Draw:
    """log(first quarter / second half) of runs of ten windows of spread 1 %, the first quarter slower."""

    def draw(rng: np.random.Generator, sets: int, n: int) -> Rows:
        rates = 1 + 0.01 * noise(rng, sets * n, 10)
        rates[:, :2] *= 1 - slow
        starts = [start(run)[0] for run in np.maximum(rates, 0.01).tolist()]
        return np.asarray(starts).reshape(sets, n)

    return draw


def losses(fall: float, noise: Draw = normal) -> Draw:
    """Gains from first to last quarter of eight windows of spread 1, of a loss that falls by this much."""

    def draw(rng: np.random.Generator, sets: int, n: int) -> Rows:
        course = noise(rng, sets * n, 8) - fall * np.arange(8) / 6
        return np.asarray(course[:, :2].mean(axis=1) - course[:, -2:].mean(axis=1)).reshape(sets, n)

    return draw


def sees_drift(logs: Sequence[float]) -> bool:
    """As the doubt `drift` of one succession."""
    found = trouble.drift(logs)
    return found is not None and found[1] <= LEVEL


def sees_dependence(logs: Sequence[float]) -> bool:
    """As the doubt `dependence`, which is not raised if a drift explains it."""
    found = trouble.lag1(logs)
    return found is not None and found[1] <= LEVEL and not sees_drift(logs)


def sees_modes(logs: Sequence[float]) -> bool:
    """As the doubt `two-modes`."""
    found = trouble.modes(logs)
    return found is not None and found[1] <= LEVEL


def sees_far_off(logs: Sequence[float]) -> bool:
    """As the doubt `one-far-off`."""
    found = trouble.far_off(logs)
    return found is not None and found.probability <= LEVEL


def sees_warm_up(starts: Sequence[float]) -> bool:
    """As the doubt `warm-up`, whatever the size of the effect."""
    return is_slow_start(starts, LEVEL)


@dataclass(frozen=True)
class Row:
    """A test with its cases: its trouble, a lesser one, and runs in which nothing is wrong."""

    sees: Test
    trouble: tuple[str, Draw]
    slight: tuple[str, Draw] | None
    clean: Draw = normal
    heavy: Draw = t3
    what_clean: str = "independent"


ROWS: dict[str, Row] = {
    "drift": Row(sees_drift, ("a drift of ±2 spreads", drifting(2)), ("a drift of ±1 spread", drifting(1))),
    "dependence": Row(sees_dependence, ("a correlation of 0.5 from run to run", autocorrelated), None),
    "two-modes": Row(
        sees_modes,
        ("two groups 10 spreads apart", two_groups(10)),
        ("two groups 6 spreads apart", two_groups(6)),
    ),
    "one-far-off": Row(
        sees_far_off, ("one run 10 spreads off", one_off(10)), ("one run 5 spreads off", one_off(5))
    ),
    "warm-up": Row(
        sees_warm_up,
        ("a first quarter that is slower by 5 spreads of a window", windows(0.05)),
        ("a first quarter that is slower by 2 spreads of a window", windows(0.02)),
        windows(0.0),
        windows(0.0, t3),
    ),
    "learns-nothing": Row(
        is_no_gain,
        ("a loss that only fluctuates", losses(0)),
        None,
        losses(2),
        losses(2, t3),
        "a loss that falls by 2 spreads of a window",
    ),
}


def rate(sees: Test, draw: Draw, n: int, sets: int = SETS, seed: int = 1) -> float:
    """Share of simulated sets in which the test detects something."""
    rows = draw(np.random.default_rng([seed, n]), sets, n).tolist()
    return sum(map(sees, rows)) / sets


def any_alarm(n: int, sets: int = SETS, seed: int = 2) -> float:
    """Share of sets of independent normal runs that raise any of the four doubts about a succession."""
    tests = [row.sees for code, row in ROWS.items() if code not in ("warm-up", "learns-nothing")]
    return rate(lambda logs: any(sees(logs) for sees in tests), normal, n, sets, seed)


def critical(levels: Sequence[float], sets: int) -> None:
    """Print the gaps that uniform runs exceed with these probabilities."""
    rng = np.random.default_rng(3)
    for n in (*range(trouble.FEWEST_FOR_MODES, 21), 25, 30, 35, 40):
        parts = [rng.uniform(size=(sets // 10, n)) for _ in range(10)]
        gaps = np.concatenate([trouble.gaps_over_spread(np.sort(part, axis=1)).max(axis=1) for part in parts])
        print(n, *(f"{np.quantile(gaps, 1 - level):.3g}" for level in levels))


def main() -> None:
    """Print the table."""
    parser = sized(
        __doc__,
        sets=(SETS, 200, "drawn for each rate"),
        critical_sets=(400_000, 1_000, "drawn for each value of --critical"),
    )
    parser.add_argument("--critical", action="store_true", help="the values that two modes must exceed")
    options = parse(parser)
    if options.critical:
        critical((LEVEL, LEVEL / 2), options.critical_sets)
        return
    print("POWER: dict[str, DetectionRates] = {")
    for code, row in ROWS.items():
        print(f'    "{code}": DetectionRates(\n        "{row.trouble[0]}",')
        print(f"        {by_runs(row.sees, row.trouble[1], options.sets)},")
        if row.slight is None:
            print("        None,")
        else:
            print(f'        ("{row.slight[0]}", {by_runs(row.sees, row.slight[1], options.sets)}),')
        for draw in (row.clean, row.heavy):
            print(f"        {by_runs(row.sees, draw, options.sets)},")
        print(f'        "{row.what_clean}",\n    ),')
    print("}")
    print("# any of the four about a succession:", {n: round(any_alarm(n, options.sets), 3) for n in RUNS})


def by_runs(sees: Test, draw: Draw, sets: int) -> dict[int, float]:
    """The rate for each number of runs, to three digits."""
    return {n: round(rate(sees, draw, n, sets), 3) for n in RUNS}


if __name__ == "__main__":
    main()

"""The arrangement of runs: unequal numbers per side, and sides measured in the same sessions."""

from __future__ import annotations

from collections.abc import Iterator

import methods
import numpy as np
from drawn_runs import Floats, Noise, independent
from experiment import AT_LEAST_94, AT_MOST_2_5, AT_MOST_5, EDGE, MARGIN, Experiment, Rate
from methods import Ratios

WITHIN, BETWEEN = 0.0005, 0.005  # spreads within a session, and between sessions
DIFFERENCE = float(np.log(1.005))
RUNS_OF_A_SESSION = 4


def arrangement() -> Iterator[Experiment]:
    """Unequal numbers, sessions that both sides share, then few runs against many that are not normal."""
    for few in (2, 3):
        for times, spreads in ((1 / 3, "a third of"), (1.0, "equal to"), (3.0, "three times")):
            group = f"{few} runs against n, their spread {spreads} the others'"
            yield Experiment(group, "coverage", _unequal(few, times), AT_LEAST_94)
        group = f"{few} runs against n, their spread three times the others'"
        yield Experiment(group, "coverage with Welch's own degrees", _unequal(few, 3.0, usual=True))
    group = f"n sessions of {RUNS_OF_A_SESSION} runs a side, spread 0.05 % within and 0.5 % between"
    yield Experiment(group, "same sessions: false faster/slower", _sessions(0.0, shared=True), AT_MOST_5)
    yield Experiment(group, "same sessions: a true 0.5 % is seen", _sessions(DIFFERENCE, shared=True))
    yield Experiment(group, "other sessions: a true 0.5 % is seen", _sessions(DIFFERENCE, shared=False))
    for many in (50, 200):
        for name, noise in NOISES.items():
            group = f"n runs against {many}, {name}"
            yield Experiment(group, "coverage", _covered(noise, many), AT_LEAST_94)
            yield Experiment(group, "false equivalent", _called_equivalent(noise, many), AT_MOST_2_5)


def _unequal(few: int, times: float, *, usual: bool = False) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        a, b = 0.01 * times * rng.normal(size=(sets, few)), 0.01 * rng.normal(size=(sets, n))
        found = _usual(a, b) if usual else methods.welch(a, b)
        return 1 - float(found.excludes(0.0).mean())

    return rate


def _slow_now_and_then(rng: np.random.Generator, sets: int, n: int) -> Floats:
    return 0.003 * independent(rng, sets, n) - 0.08 * (rng.random((sets, n)) < 0.1)


NOISES: dict[str, Noise] = {
    "normal": lambda rng, sets, n: 0.01 * independent(rng, sets, n),
    "a tenth of all runs 8 % slower": _slow_now_and_then,
    "an exponential tail": lambda rng, sets, n: -0.01 * rng.exponential(size=(sets, n)),
}


def _covered(noise: Noise, many: int) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        return 1 - float(methods.welch(noise(rng, sets, n), noise(rng, sets, many)).excludes(0.0).mean())

    return rate


def _called_equivalent(noise: Noise, many: int) -> Rate:
    """B differs by the margin, up or down."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        found = methods.welch(noise(rng, sets, n), noise(rng, sets, many))
        return max(float(found.shifted(edge).within(MARGIN).mean()) for edge in (EDGE, -EDGE))

    return rate


def _usual(a: Floats, b: Floats) -> Ratios:
    """Welch's test with Satterthwaite's degrees of freedom, for any numbers."""
    part_a, part_b = (x.var(-1, ddof=1) / x.shape[-1] for x in (a, b))
    degrees = (part_a + part_b) ** 2 / (part_a**2 / (a.shape[-1] - 1) + part_b**2 / (b.shape[-1] - 1))
    return Ratios(b.mean(-1) - a.mean(-1), np.sqrt(part_a + part_b), degrees)


def _sessions(difference: float, *, shared: bool) -> Rate:
    """How often 1 is excluded; shared sessions shift both sides equally."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        of_a = BETWEEN * rng.normal(size=(sets, n))
        of_b = of_a if shared else BETWEEN * rng.normal(size=(sets, n))
        noise = WITHIN / np.sqrt(RUNS_OF_A_SESSION)
        a, b = (days + noise * rng.normal(size=(sets, n)) for days in (of_a, of_b + difference))
        return float((methods.paired(a, b) if shared else methods.welch(a, b)).excludes(0.0).mean())

    return rate

"""How seldom a history shows a false change, how soon a true one is found, and how reliable its figures are.

`python benchmarks/history.py` prints the tables of docs/explanation/statistics.md. They show what the price
of a change in `analyse/statistics/level_shifts.py` is chosen for: 500 sessions or more between false changes.
It takes about fifteen minutes; the seed is fixed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from options import parse, sized

from assay.analyse.statistics import level_shifts
from assay.analyse.statistics.level_shifts import FEWEST, PRICE, SHORTEST_STRETCH, split

SEED = 20260301
MOST = 200  # sessions of the healthy histories
BEFORE = 50  # sessions before a step, and at most as many after it
Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Floats]


def improvements(x: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Best improvement and the step's place for each history `x[replicate, session]`, as in the library."""
    n = x.shape[1]
    distances = x - np.median(x, axis=1, keepdims=True)
    far = level_shifts._FAR * 1.4826 * np.median(np.abs(distances), axis=1, keepdims=True)
    values = np.zeros_like(x)
    for sign in (1, -1):
        away = np.maximum(sign * distances, 0)
        neighbors = np.pad(away, ((0, 0), (1, 1)))
        kept = np.maximum(far, np.maximum(neighbors[:, :-2], neighbors[:, 2:]))
        values += sign * np.minimum(away, kept)
    rhos, constants, squares, across, own = level_shifts._decorrelated_changes(n)
    unchanged, changed = np.full((len(x), 1), np.inf), np.full((len(x), own.shape[1]), np.inf)
    for (rho,), constant, (whole,), of_constant, rest in zip(
        rhos, constants, squares, across, own, strict=True
    ):
        y = np.hstack([math.sqrt(1 - rho**2) * values[:, :1], values[:, 1:] - rho * values[:, :-1]])
        to_the_end = np.cumsum(y[:, ::-1], axis=1)[:, ::-1]
        steps = (rho * y + (1 - rho) * to_the_end)[:, SHORTEST_STRETCH : n - SHORTEST_STRETCH + 1]
        line = np.concatenate([[0.0], np.arange(1, n) - rho * np.arange(n - 1)])
        along = np.hstack([steps, (y @ line)[:, None]])
        level = (y @ constant)[:, None] / whole
        left = np.sum(y**2, axis=1, keepdims=True) - level**2 * whole
        gains = (along - level * of_constant) ** 2 / rest
        unchanged = np.minimum(unchanged, n * np.log(left) - math.log(1 - rho**2))
        changed = np.minimum(changed, n * np.log(left - gains) - math.log(1 - rho**2))
    better_by = unchanged - changed
    return better_by.max(axis=1), better_by[:, :-1].argmax(axis=1) + SHORTEST_STRETCH


def steps_found(x: Floats) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which histories show a change with their last session, and where a step in each is likeliest."""
    better_by, places = improvements(x)
    found = better_by > PRICE
    for at in np.flatnonzero(found):
        found[at] = level_shifts._means_differ(x[at, : places[at]], x[at, places[at] :])
    return found, places


def spread_alone(factor: float) -> Draw:
    """The spread changes by this factor after 30 sessions, the level doesn't."""

    def draw(random: np.random.Generator, replicates: int, n: int) -> Floats:
        return np.where(np.arange(n) < 30, 1, factor) * random.standard_normal((replicates, n))

    return draw


def weekly(spreads: float) -> Draw:
    """Two sessions of seven are this many spreads slower."""

    def draw(random: np.random.Generator, replicates: int, n: int) -> Floats:
        return random.standard_normal((replicates, n)) - spreads * np.isin(np.arange(n) % 7, (5, 6))

    return draw


def check() -> None:
    """Exit if the many at once are not what the library finds for each."""
    x = heavy(np.random.default_rng(SEED), 20, 30)
    for row, found in zip(x, improvements(x)[0], strict=True):
        alone = level_shifts._improvements(level_shifts._without_outliers(row)).max()
        if abs(alone - found) > 1e-6:
            raise SystemExit(f"{alone} for a history alone, {found} among others")


def normal(random: np.random.Generator, replicates: int, n: int) -> Floats:
    """Independent normal session means."""
    return random.standard_normal((replicates, n))


def heavy(random: np.random.Generator, replicates: int, n: int) -> Floats:
    """Student's t with 3 degrees of freedom."""
    return random.standard_t(3, (replicates, n)) / math.sqrt(3)


def dependent(rho: float) -> Draw:
    """Each session resembles the one before."""

    def draw(random: np.random.Generator, replicates: int, n: int) -> Floats:
        x = random.standard_normal((replicates, n))
        for at in range(1, n):
            x[:, at] = rho * x[:, at - 1] + math.sqrt(1 - rho**2) * x[:, at]
        return x

    return draw


NOISES: dict[str, Draw] = {
    "normal": normal,
    "t3": heavy,
    "correlation 0.3": dependent(0.3),
    "correlation 0.5": dependent(0.5),
    "correlation 0.7": dependent(0.7),
    **{f"spread x{factor:g} after 30": spread_alone(factor) for factor in (0.25, 2, 4, 7)},
    **{f"weekends -{spreads} spreads": weekly(spreads) for spreads in (1, 2, 4, 8)},
}


def false_changes(draw: Draw, replicates: int) -> tuple[list[float], float]:
    """Shares of histories that have shown a change by 20, 50, 100, 200 sessions; sessions between changes."""
    x = draw(np.random.default_rng(SEED), replicates, MOST)
    shown = np.full(replicates, MOST + 1)
    for n in range(FEWEST, MOST + 1):
        found = steps_found(x[:, :n])[0]
        shown = np.where(found, np.minimum(shown, n), shown)
    watched = np.minimum(shown, MOST).sum()
    return [float(np.mean(shown <= n)) for n in (20, 50, 100, 200)], watched / max(1, np.sum(shown <= MOST))


def delays(draw: Draw, before: int, jump: float, replicates: int) -> tuple[float, float, float]:
    """Sessions of the new level until a step is found: median and 90 %; share that is found within three."""
    x = draw(np.random.default_rng([SEED, before]), replicates, before + BEFORE)
    x[:, before:] -= jump
    found = np.full(replicates, math.inf)
    for after in range(SHORTEST_STRETCH, BEFORE + 1):
        now, places = steps_found(x[:, : before + after])
        now &= np.abs(places - before) <= 2
        found = np.where(now, np.minimum(found, after), found)
    found = np.where(np.isinf(found), BEFORE, found)
    return float(np.median(found)), float(np.quantile(found, 0.9)), float(np.mean(found <= 3))


def worth(n: int, jump: float, replicates: int) -> list[float]:
    """How often a step in the middle is found; then how often its place and its size are covered."""
    random = np.random.default_rng([SEED, n])
    seen = Counter[str]()
    for _ in range(replicates):
        values = 0.01 * random.standard_normal(n)
        values[n // 2 :] += 0.01 * jump
        steps = split(values.tolist()).steps
        if not steps:
            continue
        step = min(steps, key=lambda step: abs(step.before - n // 2))
        seen["found"] += 1
        seen["place"] += step.earliest <= n // 2 <= step.latest
        seen["size"] += (step.ratio.low or 0) <= math.exp(0.01 * jump) <= (step.ratio.high or math.inf)
        seen[step.kind] += 1
    kinds = [seen[name] / max(1, seen["found"]) for name in ("place", "size", *KINDS)]
    return [seen["found"] / replicates, *kinds]


KINDS = ("step", "drift", "step-or-drift")


def named_drifts(per_session: float, replicates: int) -> list[float]:
    """How often a drift over 100 sessions is found, and the first change is a step, a drift, or unclear."""
    random = np.random.default_rng(SEED)
    seen = Counter[str]()
    for _ in range(replicates):
        steps = split((0.01 * random.standard_normal(100) - per_session * np.arange(100)).tolist()).steps
        seen[steps[0].kind if steps else "none"] += 1
    return [1 - seen["none"] / replicates, *(seen[kind] / replicates for kind in KINDS)]


def percents(shares: list[float]) -> str:
    """Shares as a row."""
    return "  ".join(f"{100 * share:5.1f} %" for share in shares)


def main() -> None:
    """Print the tables."""
    fewer = parse(sized(__doc__, fewer=(1, 200, "times fewer histories than documented"))).fewer
    check()
    print("a change is shown if there is none, by 20, 50, 100, 200 sessions; sessions between them")
    for name, draw in NOISES.items():
        shares, between = false_changes(draw, 2_000 // fewer)
        print(f"  {name:20}  {percents(shares)}  {between:6.0f}", flush=True)
    print("sessions until a step is found: median, 90 %; found within three")
    for name, draw in (("normal", normal), ("t3", heavy), ("correlation 0.5", dependent(0.5))):
        for before in (10, 20, 50):
            for jump in (2, 3, 5):
                median, most, soon = delays(draw, before, jump, 1_000 // fewer)
                words = f"{name}, {jump} spreads after {before}"
                print(f"  {words:36}  {median:3.0f}  {most:3.0f}  {100 * soon:4.0f} %", flush=True)
    print(f"a step in the middle: found; if found, its place and size covered, named {', '.join(KINDS)}")
    for n in (20, 40, 100):
        for jump in (2, 3, 5):
            print(f"  {n:4} sessions, {jump} spreads  {percents(worth(n, jump, 200 // fewer))}", flush=True)
    print(f"a drift over 100 sessions: found, named {', '.join(KINDS)}")
    for drift in (0.0002, 0.0005, 0.002):
        print(f"  {100 * drift:.2f} % a session  {percents(named_drifts(drift, 200 // fewer))}", flush=True)


if __name__ == "__main__":
    main()

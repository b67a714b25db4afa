"""Verdicts from all runs at once: coverage, false verdicts and power, by kind of runs and design."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from drawn_runs import (
    AUTOCORRELATED,
    CONTAMINATED,
    DRIFTING,
    LOGNORMAL,
    MUCH_AUTOCORRELATED,
    NORMAL,
    ONE_SIDED,
    T3,
    Design,
    Kind,
)
from experiment import (
    AT_MOST_5,
    BY_METHOD,
    COVERS,
    EDGE,
    FAILS,
    MARGIN,
    NAMES,
    TWICE,
    Experiment,
    Rate,
    in_reach,
)

from assay.analyse.statistics.trouble import far_off

DOUBT_LEVEL = 0.0125  # of the doubt one-far-off


def fixed() -> Iterator[Experiment]:
    """Independent runs, some of them contaminated."""
    for kind in (NORMAL, LOGNORMAL, T3):
        for design in BY_METHOD:
            group = f"{kind.name}, {NAMES[design]}"
            yield Experiment(group, "coverage", _coverage(kind, design), COVERS)
            yield Experiment(group, "false faster/slower", _false_call(kind, design), AT_MOST_5)
            yield Experiment(group, "false equivalent", _false_equivalent(kind, design), AT_MOST_5)
    for design in BY_METHOD:
        group = f"{CONTAMINATED.name}, {NAMES[design]}"
        yield Experiment(group, "coverage", _coverage(CONTAMINATED, design))
        yield Experiment(group, "false faster/slower", _false_call(CONTAMINATED, design), AT_MOST_5)
        yield Experiment(group, "false equivalent", _false_equivalent(CONTAMINATED, design), AT_MOST_5)
    for design in BY_METHOD:
        group = f"{ONE_SIDED.name}, {NAMES[design]}"
        yield Experiment(group, "false faster/slower", _false_call(ONE_SIDED, design))
        yield Experiment(group, "false equivalent", _false_equivalent(ONE_SIDED, design))
        yield Experiment(group, "seen: doubt one-far-off", _far_off_seen(design))
    for design in BY_METHOD:
        for spread in (0.01, 0.02):
            group = f"power, {NAMES[design]}, spread {spread:.0%}"
            yield Experiment(group, "equivalent at no difference", _power_equal(design, spread))
            yield Experiment(group, "faster at twice the margin", _power_different(design, spread))


def _coverage(kind: Kind, design: Design) -> Rate:
    """At a ratio of 1.04."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        a, b = kind.draw(rng, sets, n, design)
        return 1 - float(BY_METHOD[design](a, b + TWICE).excludes(TWICE).mean())

    return rate


def _false_call(kind: Kind, design: Design) -> Rate:
    """The interval excludes 1 although nothing differs; no margin helps."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        return float(BY_METHOD[design](*kind.draw(rng, sets, n, design)).excludes(0.0).mean())

    return rate


def _false_equivalent(kind: Kind, design: Design) -> Rate:
    """B differs by the margin, up or down; with a spread at which this many runs can show equivalence."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        found = BY_METHOD[design](*kind.draw(rng, sets, n, design, spread=in_reach(n)))
        return max(float(found.shifted(edge).within(MARGIN).mean()) for edge in (EDGE, -EDGE))

    return rate


def _far_off_seen(design: Design) -> Rate:
    """How often the doubt is raised, for sets with or without a contaminated run."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        a, b = ONE_SIDED.draw(rng, max(200, sets // 40), n, design)
        looked_at = [b - a] if design == "interleaved" else [a, b]
        level = DOUBT_LEVEL / len(looked_at)
        seen = np.zeros(len(a), bool)
        for logs in looked_at:
            found = [far_off(row) for row in logs.tolist()]
            seen |= np.array([f is not None and f.probability <= level for f in found])
        return float(seen.mean())

    return rate


def _power_equal(design: Design, spread: float) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        found = BY_METHOD[design](*NORMAL.draw(rng, sets, n, design, spread))
        return float(found.within(MARGIN).mean())

    return rate


def _power_different(design: Design, spread: float) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        found = BY_METHOD[design](*NORMAL.draw(rng, sets, n, design, spread))
        return float(found.shifted(TWICE).above(MARGIN).mean())

    return rate


def dependent() -> Iterator[Experiment]:
    """Runs that drift or are correlated, in blocks and one side after the other."""
    for kind in (DRIFTING, AUTOCORRELATED, MUCH_AUTOCORRELATED):
        for design in BY_METHOD:
            target = AT_MOST_5 if design == "interleaved" else FAILS if kind is DRIFTING else None
            group = f"{kind.name}, {design}"
            yield Experiment(group, "false faster/slower", _false_call(kind, design), target)
            equal = _false_equivalent(kind, design)
            yield Experiment(group, "false equivalent", equal, AT_MOST_5 if design == "interleaved" else None)

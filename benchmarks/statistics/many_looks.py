"""Verdicts at looks fixed in the plan, no matter at which look one stops, and why."""

from __future__ import annotations

from collections.abc import Iterator

import methods
import numpy as np
from drawn_runs import LOGNORMAL, NORMAL, T3, Design, Kind
from experiment import AT_MOST_5, BY_METHOD, EDGE, MARGIN, NAMES, Experiment, Rate, in_reach

from assay.analyse.statistics.sequential import looks, nominal_p


def sequential() -> Iterator[Experiment]:
    """The planned maximum is n, with earlier looks at 3, 5, 8, 12, 20, and so on."""
    for kind in (NORMAL, LOGNORMAL, T3):
        for design in BY_METHOD:
            group = f"until decided, {kind.name}, {NAMES[design]}"
            yield Experiment(group, "false faster/slower", _any_look(kind, design, "called"), AT_MOST_5)
            yield Experiment(group, "false equivalent", _any_look(kind, design, "equivalent"), AT_MOST_5)
    for kind in (NORMAL, LOGNORMAL, T3):
        group = f"until decided, requirement that is just met, {kind.name}"
        yield Experiment(group, "passed or failed", _required(kind), AT_MOST_5)
    for design in BY_METHOD:
        group = f"until decided, power, {NAMES[design]}, spread 2%"
        yield Experiment(group, "equivalent at no difference", _any_look(NORMAL, design, "power"))
    group = "until decided, spread 1 against 5, unpaired"
    yield Experiment(group, "false faster/slower", _unequal(1, 5.0), AT_MOST_5)
    group = "until decided, 1 run against 3, unpaired"
    yield Experiment(group, "false faster/slower", _unequal(3, 0.6), AT_MOST_5)


def _any_look(kind: Kind, design: Design, what: str) -> Rate:
    """At any look up to a maximum of n; `called`: 1 is excluded; otherwise the intervals cover it."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        spread = in_reach(n) if what == "equivalent" else kind.spread
        a, b = kind.draw(rng, sets, n, design, spread)
        p = nominal_p(n, paired=design == "interleaved")
        hit = np.zeros(sets, bool)
        for look in looks(n):
            found = BY_METHOD[design](a[:, :look], b[:, :look])
            if what == "called":
                hit |= found.excludes(0.0, p)
            else:
                hit |= found.shifted(EDGE if what == "equivalent" else 0.0).within(MARGIN, p)
        return float(hit.mean())

    return rate


def _required(kind: Kind) -> Rate:
    """At any look, the interval of one side's mean excludes the truth, which is also the requirement."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        a, _ = kind.draw(rng, sets, n, "interleaved")
        hit = np.zeros(sets, bool)
        for look in looks(n):
            hit |= methods.mean(a[:, :look]).excludes(0.0, nominal_p(n, paired=True))
        return float(hit.mean())

    return rate


def _unequal(more: int, spread: float) -> Rate:
    """B has `more` times A's runs and `spread` times its spread."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        a, b = rng.normal(size=(sets, n)), spread * rng.normal(size=(sets, more * n))
        p = nominal_p(n, paired=False, equal_n=more == 1)
        if len(looks(n)) == 1:
            return float("nan")  # a single look is Welch's test, which errs up to 7 % here
        hit = np.zeros(sets, bool)
        for look in looks(n):
            hit |= methods.welch(a[:, :look], b[:, : more * look]).excludes(0.0, p)
        return float(hit.mean())

    return rate

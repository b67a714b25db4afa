"""Verdicts of several comparisons that are claimed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import methods
import numpy as np
from drawn_runs import Floats
from experiment import AT_LEAST_95, AT_MOST_5, EDGE, MARGIN, TWICE, Experiment, Rate, in_reach
from methods import Flags, Ratios

from assay.analyse.statistics.sequential import IN_FAMILY, looks, nominal_p

CLAIMS = 8  # in a family
FAMILIES_LESS = 4  # times fewer families than sets: each is eight comparisons at three spreads


def families() -> Iterator[Experiment]:
    """Families of eight pairs each, the same truths throughout."""
    none = np.zeros(CLAIMS)
    some = np.array([TWICE, -TWICE, 0.5, *[0.0] * (CLAIMS - 3)])
    edge = np.array([EDGE, *[0.0] * (CLAIMS - 1)])
    group = f"{CLAIMS} claims together (Holm)"
    yield Experiment(group, "false faster/slower, none differs", _wrong(none, _called), AT_MOST_5)
    yield Experiment(group, "false faster/slower, 3 differ", _wrong(some, _called), AT_MOST_5)
    yield Experiment(group, "false faster/slower, 1 at margin", _wrong(edge, _called), AT_MOST_5)
    yield Experiment(group, "false equivalent, 1 at margin", _wrong(edge, _equated), AT_MOST_5)
    yield Experiment(group, "false equivalent, each of 8 at margin", _each_equated, AT_MOST_5)
    yield Experiment(group, "false 'all are equivalent', 1 at margin", _wrong(edge, _all_equated), AT_MOST_5)
    yield Experiment(group, "either of both, 1 at margin", _wrong(edge, _either))
    yield Experiment(group, "all equivalent, spread 1%", _all_equivalent)
    yield Experiment(group, "5 certain ones equivalent beside a noisy one", _beside_a_noisy_one, AT_LEAST_95)
    for truth, of in ((none, "none differs"), (some, "3 differ")):
        yield Experiment(group, f"all intervals hold, {of}", _all_hold(truth), AT_LEAST_95)
    yield Experiment(
        "30 claims together (Holm)", "all intervals hold, none differs", _all_hold(np.zeros(30)), AT_LEAST_95
    )
    group = f"until decided, {CLAIMS} claims together"
    yield Experiment(group, "false faster/slower, none differs", _wrong_at_any_look, AT_MOST_5)
    group = f"{CLAIMS} claims, uncorrected"
    yield Experiment(group, "false faster/slower, none differs", _wrong(none, _called, methods.alone))


def _called(found: methods.Family, truth: Floats) -> Flags:
    """Faster or slower although that is not true."""
    return (found.more & (truth <= 0)) | (found.less & (truth >= 0))


def _equated(found: methods.Family, truth: Floats) -> Flags:
    """Equivalent although the difference is at least the margin."""
    return found.equivalent & (np.abs(truth) >= EDGE)


def _all_equated(found: methods.Family, truth: Floats) -> Flags:
    """The same, if every claim of the family is called equivalent."""
    return _equated(found, truth) & found.equivalent.all(-1, keepdims=True)


def _each_equated(rng: np.random.Generator, sets: int, n: int) -> float:
    """Share of the claims, not of the families."""
    d = 0.25 * in_reach(n) * rng.normal(size=(sets // FAMILIES_LESS, CLAIMS, n)) + EDGE
    return float(methods.holm(methods.paired(np.zeros_like(d), d), MARGIN).equivalent.mean())


def _either(found: methods.Family, truth: Floats) -> Flags:
    return _called(found, truth) | _equated(found, truth)


def _wrong(
    truth: Floats,
    mistaken: Callable[[methods.Family, Floats], Flags],
    verdicts: Callable[[Ratios, float], methods.Family] = methods.holm,
) -> Rate:
    """Share of families with any such verdict, the worst of three spreads."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        worst = 0.0
        for spread in (0.25 * in_reach(n), in_reach(n), 3 * in_reach(n)):
            d = spread * rng.normal(size=(sets // FAMILIES_LESS, CLAIMS, n)) + truth[:, None]
            found = verdicts(methods.paired(np.zeros_like(d), d), MARGIN)
            worst = max(worst, float(mistaken(found, truth).any(-1).mean()))
        return worst

    return rate


def _all_hold(truth: Floats) -> Rate:
    """Families whose simultaneous intervals all cover the truth; the spread makes all equivalent."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        d = 0.25 * in_reach(n) * rng.normal(size=(sets // FAMILIES_LESS, len(truth), n)) + truth[:, None]
        low, high = methods.together(methods.paired(np.zeros_like(d), d))
        return float(((low <= truth) & (truth <= high)).all(-1).mean())

    return rate


def _beside_a_noisy_one(rng: np.random.Generator, sets: int, n: int) -> float:
    spreads = 0.25 * in_reach(n) * np.array([1.0] * 5 + [40.0])
    d = spreads[:, None] * rng.normal(size=(sets // FAMILIES_LESS, 6, n))
    found = methods.holm(methods.paired(np.zeros_like(d), d), MARGIN)
    return float(found.equivalent[:, :5].all(-1).mean())


def _wrong_at_any_look(rng: np.random.Generator, sets: int, n: int) -> float:
    """Any claim at any look excludes 1; a maximum of n pairs."""
    d = rng.normal(size=(sets // FAMILIES_LESS, CLAIMS, n))
    share = IN_FAMILY if len(looks(n)) > 1 else 1.0
    hit = np.zeros(len(d), bool)
    for look in looks(n):
        found = methods.paired(np.zeros_like(d[..., :look]), d[..., :look])
        verdicts = methods.holm(found, 1e-9, share * nominal_p(n, paired=True))
        hit |= (verdicts.more | verdicts.less).any(-1)
    return float(hit.mean())


def _all_equivalent(rng: np.random.Generator, sets: int, n: int) -> float:
    d = 0.01 * np.sqrt(2) * rng.normal(size=(sets // FAMILIES_LESS, CLAIMS, n))
    found = methods.holm(methods.paired(np.zeros_like(d), d), MARGIN)
    return float(found.equivalent.all(-1).mean())

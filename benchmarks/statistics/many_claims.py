"""Verdicts of several comparisons that are claimed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import methods
import numpy as np
from drawn_runs import Floats
from experiment import AT_MOST_5, EDGE, MARGIN, TWICE, Experiment, Rate, in_reach
from methods import Flags, Ratios

from assay.analyse.sequential import IN_FAMILY, looks, nominal_p

CLAIMS = 8  # of a family
FAMILIES_LESS = 4  # times fewer families than sets: each is eight comparisons at three spreads


def families() -> Iterator[Experiment]:
    """Families of eight pairs each, the same truths throughout."""
    none = np.zeros(CLAIMS)
    some = np.array([TWICE, -TWICE, 0.5, *[0.0] * (CLAIMS - 3)])
    edge = np.array([EDGE, *[0.0] * (CLAIMS - 1)])
    edges = np.full(CLAIMS, EDGE)
    group = f"{CLAIMS} claims together (Holm)"
    yield Experiment(group, "false faster/slower, none differs", _wrong(none, _called), AT_MOST_5)
    yield Experiment(group, "false faster/slower, 3 differ", _wrong(some, _called), AT_MOST_5)
    yield Experiment(group, "false faster/slower, 1 at margin", _wrong(edge, _called), AT_MOST_5)
    yield Experiment(group, "false equivalent, 1 at margin", _wrong(edge, _equated), AT_MOST_5)
    yield Experiment(group, "false equivalent, all at margin", _wrong(edges, _equated), AT_MOST_5)
    yield Experiment(group, "either of both, 1 at margin", _wrong(edge, _either))
    yield Experiment(group, "all equivalent, spread 1%", _all_equivalent)
    group = f"until decided, {CLAIMS} claims together"
    yield Experiment(group, "false faster/slower, none differs", _wrong_at_any_look, AT_MOST_5)
    group = f"{CLAIMS} claims, uncorrected"
    yield Experiment(group, "false faster/slower, none differs", _wrong(none, _called, methods.alone))


def _called(found: methods.Family, truth: Floats) -> Flags:
    """Faster or slower where that is not so."""
    return (found.more & (truth <= 0)) | (found.less & (truth >= 0))


def _equated(found: methods.Family, truth: Floats) -> Flags:
    """Equivalent where the difference is the margin or more."""
    return found.equivalent & (np.abs(truth) >= EDGE)


def _either(found: methods.Family, truth: Floats) -> Flags:
    return _called(found, truth) | _equated(found, truth)


def _wrong(
    truth: Floats,
    mistaken: Callable[[methods.Family, Floats], Flags],
    verdicts: Callable[[Ratios, float], methods.Family] = methods.holm,
) -> Rate:
    """Families with any such verdict, the worst over three spreads."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        worst = 0.0
        for spread in (0.25 * in_reach(n), in_reach(n), 3 * in_reach(n)):
            d = spread * rng.normal(size=(sets // FAMILIES_LESS, CLAIMS, n)) + truth[:, None]
            found = verdicts(methods.paired(np.zeros_like(d), d), MARGIN)
            worst = max(worst, float(mistaken(found, truth).any(-1).mean()))
        return worst

    return rate


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

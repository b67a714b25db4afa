"""Checks that this simulation's vectorized formulas are those of `assay.analyse`, on drawn sets."""

from __future__ import annotations

import math

import methods
import numpy as np
from methods import Ratios

from assay.analyse.comparison.families import corrected
from assay.analyse.comparison.verdict import decide
from assay.analyse.points.replication import Succession, drifts, worth
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import Hidden, LogInterval
from assay.records import Comparison, Point

MARGIN = 0.02
CLOSE = 1e-9
_POINT = Point("simulated", "1x1", "throughput", "", "higher", {})


class DisagreementError(Exception):
    """A vectorized formula and the library disagree."""


def check(seed: int = 1, families: int = 60, claims: int = 5) -> int:
    """Compare intervals and verdicts, alone and in families; returns how many comparisons agreed.

    Raises DisagreementError with the first set that disagrees.
    """
    rng, agreed = np.random.default_rng(seed), 0
    for n in (3, 5, 10):
        for paired, more in ((True, 1), (False, 1), (False, 4)):
            shift = rng.choice([0.0, 0.0, 0.02, -0.05], size=(families, claims, 1))
            size = rng.choice([0.002, 0.01, 0.03], size=(families, 1, 1))
            a = size * rng.normal(size=(families, claims, n))
            b = size * rng.normal(size=(families, claims, more * n)) + shift
            vectorised = methods.paired(a, b) if paired else methods.welch(a, b)
            _hold(a, b, vectorised, paired)
            agreed += families * claims
        agreed += _worth(0.01 * rng.normal(size=(families, n)), 0.01 * rng.normal(size=(families, n)))
    return agreed


def _worth(a: methods.Floats, b: methods.Floats) -> int:
    """Intervals of runs in a known order; returns how many agreed."""
    found = methods.in_order(a, b)
    for at, rows in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        sides = [
            Succession(name, tuple(row), ("",) * len(row), (len(row),), ordered=True, unrounded=tuple(row))
            for name, row in zip("AB", rows, strict=True)
        ]
        drift = max((abs(change) for _, change, *_ in drifts(sides)), default=0.0)
        interval = intervals.welch(*rows, 0.95, Hidden(shift=drift, worth=worth(sides)))
        theirs = found.centre[at], found.error[at], found.degrees[at]
        ours = (interval.centre, interval.error or 0.0, interval.degrees or 0.0)
        if not np.allclose(ours, theirs, rtol=CLOSE):
            raise DisagreementError(f"{interval} is not {theirs}")
    return len(a)


def _hold(a: methods.Floats, b: methods.Floats, found: Ratios, paired: bool) -> None:
    alone, together = methods.alone(found, MARGIN), methods.holm(found, MARGIN)
    for family in range(len(a)):
        claims = []
        for claim, (x, y) in enumerate(zip(a[family].tolist(), b[family].tolist(), strict=True)):
            interval = intervals.paired(list(zip(x, y, strict=True))) if paired else intervals.welch(x, y)
            theirs = (found.centre[family, claim], found.error[family, claim], found.degrees[family, claim])
            ours = (interval.centre, interval.error or 0.0, interval.degrees or 0.0)
            if not np.allclose(ours, theirs, rtol=CLOSE, atol=CLOSE):
                raise DisagreementError(f"{ours} is not {theirs}")
            claims.append(_comparison(interval, "paired" if paired else "welch"))
        _same([c.verdict for c in claims], alone, family)
        _same([c.verdict for c in corrected(claims)], together, family)


def _same(verdicts: list[str], found: methods.Family, family: int) -> None:
    for claim, verdict in enumerate(verdicts):
        flags = (found.more[family, claim], found.less[family, claim], found.equivalent[family, claim])
        expected = (verdict == "faster", verdict == "slower", verdict == "equivalent")
        if tuple(map(bool, flags)) != expected:
            raise DisagreementError(f"{verdict} is not (more, less, equivalent) {flags}")


def _comparison(interval: LogInterval, method: str) -> Comparison:
    ratio = interval.estimate("")
    verdict, reason = decide(ratio, MARGIN, "higher")
    half = None if interval.half is None else math.expm1(interval.half)
    return Comparison(
        point=_POINT,
        a="A",
        b="B",
        mean_a=1.0,
        mean_b=ratio.value,
        ratio=ratio,
        n=(interval.n, interval.n),
        method=method,
        margin=MARGIN,
        verdict=verdict,
        reason=reason,
        smallest_visible=half,
        error=interval.error,
        degrees=interval.degrees,
    )

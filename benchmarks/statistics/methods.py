"""The formulas of `assay.analyse` for many sets at once, and what people do today for comparison.

`agreement.py` compares them with `assay.analyse` itself, set by set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from assay.analyse.points.replication import FEWEST_FOR_WORTH, LEAST_DEGREES, LEVEL
from assay.analyse.statistics.intervals import LEAST_VARIANCE_RATIO

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Ratios:
    """Log-ratios with standard error and degrees of freedom; any shape, one element per comparison."""

    centre: Floats
    error: Floats
    degrees: Floats

    def shifted(self, by: float | Floats) -> Ratios:
        """The same, if the true log-ratio were larger by this much."""
        return Ratios(self.centre + by, self.error, self.degrees)

    def tail(self, at: float) -> Floats:
        """One-sided p that the log-ratio is no more than `at`: small if it is far above."""
        found: Floats = stdtr(self.degrees, -(self.centre - at) / self.error)
        return found

    def excludes(self, truth: float, alpha: float = 0.05) -> Flags:
        """The interval of confidence 1 − alpha does not cover the truth."""
        above = self.tail(truth)
        flags: Flags = np.minimum(above, 1 - above) < alpha / 2
        return flags

    def within(self, margin: float, alpha: float = 0.05) -> Flags:
        """The interval is within the margin: `equivalent`."""
        edge = np.log1p(margin)
        flags: Flags = (self.tail(-edge) < alpha / 2) & (1 - self.tail(edge) < alpha / 2)
        return flags

    def above(self, margin: float, alpha: float = 0.05) -> Flags:
        """`faster`, if more is better: the interval is above 1, and not within the margin."""
        flags: Flags = (self.tail(0.0) < alpha / 2) & ~self.within(margin, alpha)
        return flags


def mean(a: Floats) -> Ratios:
    """One side's mean by t over the last axis, against 1."""
    n, centre = a.shape[-1], a.mean(-1)
    return Ratios(centre, a.std(-1, ddof=1) / np.sqrt(n), np.full(centre.shape, n - 1.0))


def paired(a: Floats, b: Floats) -> Ratios:
    """Paired t over the last axis."""
    return mean(b - a)


def welch(a: Floats, b: Floats) -> Ratios:
    """Welch's t over the last axis; the sides may have different counts."""
    count_a, count_b = a.shape[-1], b.shape[-1]
    variance_a, variance_b = (x.var(-1, ddof=1) for x in (a, b))
    noise_a, noise_b = variance_a, variance_b
    if count_a < count_b:
        noise_a = np.maximum(variance_a, variance_b)
        variance_a = np.maximum(variance_a, LEAST_VARIANCE_RATIO * variance_b)
    elif count_b < count_a:
        noise_b = np.maximum(variance_a, variance_b)
        variance_b = np.maximum(variance_b, LEAST_VARIANCE_RATIO * variance_a)
    error = np.sqrt(noise_a / count_a + noise_b / count_b)
    part_a, part_b = variance_a / count_a, variance_b / count_b
    degrees = (part_a + part_b) ** 2 / (part_a**2 / (count_a - 1) + part_b**2 / (count_b - 1))
    return Ratios(b.mean(-1) - a.mean(-1), error, degrees)


def in_order(a: Floats, b: Floats) -> Ratios:
    """Welch's t for runs whose order is known, equally many per side: with their correlation and drift."""
    plain, worth = welch(a, b), independent_share(a, b)
    degrees = np.maximum(plain.degrees * worth, 1.0)
    drift = np.maximum(_drift(a), _drift(b)) / stdtrit(degrees, 0.975)
    return Ratios(plain.centre, plain.error / np.sqrt(worth) + drift, degrees)


def independent_share(a: Floats, b: Floats) -> Floats:
    """The share of the runs that count as independent: `hidden.worth` for all sets at once."""
    n = a.shape[-1]
    if n < FEWEST_FOR_WORTH:
        return np.ones(a.shape[:-1])
    sides = [x - x.mean(-1, keepdims=True) for x in (a, b)]
    products = sum((x[..., 1:] * x[..., :-1]).sum(-1) for x in sides)
    r = products / sum((x**2).sum(-1) for x in sides)
    r = np.clip(r + (1 + 3 * r) / n, 0.0, 0.95)
    share: Floats = np.maximum((1 - r) / (1 + r), LEAST_DEGREES / (n - 1))
    return share


def _drift(x: Floats) -> Floats:
    """The change over a side's runs where the doubt would find it, else 0."""
    n = x.shape[-1]
    t = np.arange(n) - (n - 1) / 2
    off = x - x.mean(-1, keepdims=True)
    slope = off @ t / (t @ t)
    rest = (off**2).sum(-1) - slope**2 * (t @ t)
    p = 2 * stdtr(n - 2, -np.abs(slope) * np.sqrt(t @ t / (rest / (n - 2))))
    change: Floats = np.where(p <= LEVEL / 2, np.abs(slope) * (n - 1), 0.0)
    return change


@dataclass(frozen=True)
class Family:
    """Verdicts of families, sets × claims: those of `statistics.families`, where more is better."""

    more: Flags
    less: Flags
    equivalent: Flags


def alone(ratios: Ratios, margin: float) -> Family:
    """Each claim by its own interval."""
    equal = ratios.within(margin)
    p = ratios.tail(0.0)
    return Family((p < 0.025) & ~equal, (1 - p < 0.025) & ~equal, equal)


def holm(ratios: Ratios, margin: float, alpha: float = 0.05) -> Family:
    """Differences corrected for being claimed together; equivalence by each claim's own interval."""
    p = ratios.tail(0.0)
    (more, _), (less, _) = _step_down(p, alpha / 2), _step_down(1 - p, alpha / 2)
    equal = ratios.within(margin)
    return Family(more & ~equal, less & ~equal, equal)


_OPEN = 1e-12  # an end that excludes 1 without stating by how much


def together(ratios: Ratios, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """Ends of the simultaneous intervals, as logarithms, sets × claims."""
    p = ratios.tail(0.0)

    def bound(tails: Floats, sign: int) -> Floats:
        rejected, level = _step_down(tails, alpha / 2)
        reach = sign * ratios.centre + stdtrit(ratios.degrees, level) * ratios.error
        return np.where(rejected & ~rejected.all(-1, keepdims=True), _OPEN, reach)

    return bound(p, 1), -bound(1 - p, -1)


def _step_down(p: Floats, tail: float) -> tuple[Flags, Floats]:
    """Which claims Holm rejects, and the one-sided level left for the others, sets × 1."""
    count = p.shape[-1]
    order = np.argsort(p, axis=-1)
    allowed = tail / (count - np.arange(count))
    in_order = np.logical_and.accumulate(np.take_along_axis(p, order, -1) <= allowed, axis=-1)
    rejected = np.zeros_like(in_order)
    np.put_along_axis(rejected, order, in_order, -1)
    left = count - rejected.sum(-1, keepdims=True)
    return rejected, tail / np.where(left == 0, count, left)


def differ_by_one_deviation(a: Floats, b: Floats) -> Flags:
    """The means differ by more than A's standard deviation."""
    x, y = np.exp(a), np.exp(b)
    flags: Flags = np.abs(y.mean(-1) - x.mean(-1)) > x.std(-1, ddof=1)
    return flags


def best_beats_the_mean(a: Floats, b: Floats) -> Flags:
    """B's best run is above A's mean."""
    flags: Flags = np.exp(b).max(-1) > np.exp(a).mean(-1)
    return flags

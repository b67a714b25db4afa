"""Amdahl's law, the Universal Scalability Law and others fitted to throughput over ranks, with intervals.

Throughput on n ranks is X(n) = c·n / (1 + σ(n − 1) + κ·n(n − 1)). σ is what is not divided among the ranks
(the serial share; under weak scaling, what each further rank adds to a step), κ is the cost of every pair of
ranks (coherence: each waits for each). Amdahl's law has κ = 0. The other laws have another loss in place of
σ(n − 1), as exchanges in a ring or a tree have; what they predict beyond the sizes bounds what is known.
Sources: Amdahl, AFIPS 30 (1967) 483-485; Gunther, Guerrilla Capacity Planning (2007), chapter 4; Thakur,
Rabenseifner and Gropp, IJHPCA 19 (2005) 49-66, for rings and trees.

Fitted on logarithms by least squares with 0 ≤ σ, κ ≤ 1; every interval is a profile interval of the
sum of squares, so that it ends at 0 where the law does. No bootstrap: there are too few sizes and runs.
The intervals' coverage is simulated in tests/analyse/scaling/test_laws.py and benchmarks/scaling_laws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from assay.analyse.statistics.intervals import ratio_end, t_quantile
from assay.records import Estimate


def _log2(n: Any) -> Any:
    import numpy as np

    return np.log2(n)


Name = Literal["amdahl", "usl", "ring", "tree", "root", "exchanges", "steep", "pairs"]
# What each law multiplies by its shares: the growth of its losses with the ranks.
_LOSSES: dict[Name, tuple[Callable[[Any], Any], ...]] = {
    "amdahl": (lambda n: n - 1,),
    "usl": (lambda n: n - 1, lambda n: n * (n - 1)),
    "ring": (lambda n: (n - 1) / n,),
    "tree": (_log2,),
    "root": (lambda n: n**0.5 - 1,),
    "exchanges": (lambda n: n * _log2(n),),
    "steep": (lambda n: n**1.5 - 1,),
    "pairs": (lambda n: n * (n - 1),),
}
SHARES: dict[Name, int] = {name: len(losses) for name, losses in _LOSSES.items()}
FLATTENING: tuple[Name, ...] = ("ring", "tree", "root")  # losses that grow more slowly than Amdahl's
USL_SIZES = 6  # from which on it is reported: two shares from fewer sizes follow the noise
MISFIT = 0.05  # false-alarm rate of the test whether the sizes' means deviate from the law
_RAYS = 180  # from the best fit to the edge of what the data allow; profile ends are exact to 2e-4 of a width
_EXACT = 1e-13  # sums of squares of logarithms below this are rounding error
Array = Any  # a numpy array; numpy itself is imported where it is used


@dataclass(frozen=True)
class Size:
    """Runs on this many ranks: logarithms of throughput (of 1/time for a time), one per run."""

    ranks: int
    logs: tuple[float, ...]


@dataclass(frozen=True)
class Noise:
    """How runs scatter about their size's mean, on logarithms.

    squares, degrees  of the scatter that differences between sizes suffer
    centre_variance   of the mean over all runs, with its degrees of freedom
    """

    squares: float
    degrees: int
    centre_variance: float | None
    centre_degrees: int


def noise(sizes: Sequence[Size], *, blocked: bool) -> Noise:
    """The scatter of the runs, without the part common to a block's sizes if they were run in blocks.

    blocked  the n-th runs of all sizes come from one shuffled block; then all sizes have the same number of
             runs
    """
    import numpy as np

    if not blocked:
        squares = sum(float(np.sum((np.asarray(s.logs) - np.mean(s.logs)) ** 2)) for s in sizes)
        runs = sum(len(s.logs) for s in sizes)
        degrees = runs - len(sizes)
        return Noise(squares, degrees, squares / degrees / runs if degrees else None, degrees)
    table = np.array([s.logs for s in sizes])
    k, blocks = table.shape
    means = table.mean(axis=0) - table.mean()
    rest = table - table.mean(axis=1, keepdims=True) - means
    variance = float(np.sum(means**2)) / (blocks - 1) / blocks if blocks > 1 else None
    return Noise(float(np.sum(rest**2)), (k - 1) * (blocks - 1), variance, blocks - 1)


@dataclass(frozen=True)
class Fit:
    """A law fitted to sizes.

    shares    σ, or σ and κ
    edge      shares at the edge of what the data allow; empty if they allow no interval
    variance  of one run about the law, with its degrees of freedom; None if it can't be estimated
    misfit    probability of means this far from the law, if it were true; None if unknown
    confidence  of every interval
    """

    name: Name
    sizes: tuple[Size, ...]
    shares: Array
    edge: Array
    centre: float
    noise: Noise
    variance: float | None
    degrees: int
    misfit: float | None
    confidence: float = 0.95

    @property
    def fits(self) -> bool:
        """Whether the means are no farther from the law than the runs' scatter explains."""
        return self.misfit is None or self.misfit >= MISFIT

    def share(self, number: int) -> Estimate:
        """σ (0) or κ (1) with its interval."""
        runs = sum(len(s.logs) for s in self.sizes)
        value = float(self.shares[number])
        if not len(self.edge):
            return Estimate(value, None, None, runs, "", self.confidence)
        ends = self.edge[:, number]
        low, high = min(value, float(ends.min())), max(value, float(ends.max()))
        return Estimate(value, low, high, runs, "", self.confidence)

    def log_speed(self, ranks: int) -> tuple[float, float | None, float | None]:
        """Logarithm of the mean throughput on this many ranks, and the ends of its interval."""
        log_relative, low, high = self._relative(ranks)
        value = self.centre + log_relative
        variance = self.noise.centre_variance
        if low is None or high is None or variance is None or self.noise.centre_degrees < 1:
            return value, None, None
        runs = sum(len(s.logs) for s in self.sizes)
        if not self.fits and self.variance is not None:
            variance += self.variance / runs
        half = t_quantile((1 + self.confidence) / 2, self.noise.centre_degrees) * math.sqrt(variance)
        return (
            value,
            value - _reach(half, log_relative - low, high - log_relative),
            value + _reach(half, high - log_relative, log_relative - low),
        )

    def steps(self) -> Iterator[tuple[int, int, float, float]]:
        """Ranks of adjacent sizes, the gain of the means from one to the other, and the law's gain."""
        for smaller, larger in pairwise(self.sizes):
            measured = math.fsum(larger.logs) / len(larger.logs) - math.fsum(smaller.logs) / len(smaller.logs)
            law = self._log_shape([smaller.ranks, larger.ranks], self.shares)
            yield smaller.ranks, larger.ranks, math.exp(measured), math.exp(float(law[1] - law[0]))

    def efficiency(self, ranks: int) -> Estimate:
        """Speed-up over the smallest size, divided by the ratio of ranks."""
        first = self.sizes[0].ranks
        ideal = math.log(ranks / first)
        runs = sum(len(s.logs) for s in self.sizes)

        def efficiency(shares: Any) -> Any:
            return self._log_shape([ranks], shares)[..., 0] - self._log_shape([first], shares)[..., 0] - ideal

        value = math.exp(float(efficiency(self.shares)))
        if not len(self.edge):
            return Estimate(value, None, None, runs, "", self.confidence)
        ends = efficiency(self.edge)
        low, high = math.exp(float(ends.min())), math.exp(float(ends.max()))
        return Estimate(value, min(low, value), max(high, value), runs, "", self.confidence)

    def _relative(self, ranks: int) -> tuple[float, float | None, float | None]:
        """Logarithm of the throughput relative to the mean over all runs, by the shares alone."""
        log_relative = float(self._log_shape([ranks], self.shares)[0] - self._mean(self.shares))
        if not len(self.edge):
            return log_relative, None, None
        ends = self._log_shape([ranks], self.edge)[:, 0] - self._mean(self.edge)
        return log_relative, min(log_relative, float(ends.min())), max(log_relative, float(ends.max()))

    def _mean(self, shares: Any) -> Any:
        import numpy as np

        weights = [len(s.logs) for s in self.sizes]
        return np.average(self._log_shape([s.ranks for s in self.sizes], shares), axis=-1, weights=weights)

    def _log_shape(self, ranks: Sequence[int], shares: Any) -> Any:
        return _log_shape(_losses(self.name, ranks), ranks, shares)


def fit(sizes: Sequence[Size], name: Name, *, blocked: bool = False, confidence: float = 0.95) -> Fit | None:
    """The law closest to the sizes' means; None if there are fewer sizes than parameters.

    sizes    of different numbers of ranks
    blocked  as in `noise`
    """
    import numpy as np

    q = SHARES[name]
    if len(sizes) < q + 1:
        return None
    sizes = tuple(sorted(sizes, key=lambda s: s.ranks))
    ranks = [s.ranks for s in sizes]
    losses, weights = _losses(name, ranks), np.array([len(s.logs) for s in sizes], dtype=float)
    means = np.array([math.fsum(s.logs) / len(s.logs) for s in sizes])
    centre = float(np.average(means, weights=weights))

    def residuals(shares: Any) -> Any:
        shape = _log_shape(losses, ranks, shares)
        return means - centre - (shape - np.average(shape, axis=-1, weights=weights)[..., None])

    def squares(shares: Any) -> Any:
        return np.sum(weights * residuals(shares) ** 2, axis=-1)

    best = _best(losses, weights, residuals, squares, q)
    scatter = noise(sizes, blocked=blocked)
    least = float(squares(best))
    variance, degrees, misfit = _variance(least, len(sizes) - 1 - q, scatter)
    edge = np.empty((0, q))
    if variance is not None:
        limit = least + variance * t_quantile((1 + confidence) / 2, degrees) ** 2
        edge = _edge(losses, weights, best, squares, limit, math.sqrt(max(limit - least, _EXACT)))
    return Fit(name, sizes, best, edge, centre, scatter, variance, degrees, misfit, confidence)


@dataclass(frozen=True)
class HoldoutSize:
    """A size predicted from the others: measured over predicted − 1, and whether noise can explain it.

    others_fit  the other sizes' means are no farther from their law than the runs' scatter explains
    """

    ranks: int
    error: float
    low: float | None
    high: float | None
    others_fit: bool = True

    @property
    def beyond(self) -> bool | None:
        """Whether the interval, holding over all sizes jointly, excludes 0; None if there is no interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def held_out(
    sizes: Sequence[Size], name: Name, *, blocked: bool = False, confidence: float = 0.95
) -> tuple[HoldoutSize, ...]:
    """Each size compared with the law fitted to the others; empty if the others are too few.

    confidence  that all intervals hold jointly
    """
    if len(sizes) < SHARES[name] + 2:
        return ()
    confidence = 1 - (1 - confidence) / len(sizes)  # Bonferroni
    holdouts = []
    for out in sizes:
        rest = fit([s for s in sizes if s is not out], name, blocked=blocked, confidence=confidence)
        if rest is not None:
            holdouts.append(_against(out, rest, confidence))
    return tuple(holdouts)


def _against(out: Size, rest: Fit, confidence: float) -> HoldoutSize:
    log_relative, low, high = rest._relative(out.ranks)
    error = math.fsum(out.logs) / len(out.logs) - rest.centre - log_relative
    if rest.variance is None or low is None or high is None:
        return HoldoutSize(out.ranks, math.expm1(error), None, None, rest.fits)
    runs = sum(len(s.logs) for s in rest.sizes)
    half = t_quantile((1 + confidence) / 2, rest.degrees) * math.sqrt(
        rest.variance * (1 / len(out.logs) + 1 / runs)
    )
    least, most = (
        error - _reach(half, high - log_relative, log_relative - low),
        error + _reach(half, log_relative - low, high - log_relative),
    )
    low, high = (None if end is None else end - 1 for end in map(ratio_end, (least, most)))
    return HoldoutSize(out.ranks, math.expm1(error), low, high, rest.fits)


def typical_error(errors: Sequence[HoldoutSize]) -> float | None:
    """Root mean square of the held-out errors, a share of the throughput; None without any."""
    if not errors:
        return None
    return math.sqrt(math.fsum(e.error**2 for e in errors) / len(errors))


def _losses(name: Name, ranks: Sequence[int]) -> Any:
    """What the law multiplies by its shares at each number of ranks: k × q."""
    import numpy as np

    n = np.asarray(ranks, dtype=float)
    return np.stack([loss(n) for loss in _LOSSES[name]], axis=1)


def _log_shape(losses: Array, ranks: Sequence[int], shares: Any) -> Any:
    """log(n / (1 + the shares' losses)): shares (…, q) and k ranks give (…, k)."""
    import numpy as np

    n, shares = np.asarray(ranks, dtype=float), np.asarray(shares)
    lost = shares[..., :1] * losses[:, 0]
    if shares.shape[-1] == 2:
        lost = lost + shares[..., 1:] * losses[:, 1]
    return np.log(n) - np.log1p(lost)


def _slopes(losses: Array, weights: Any, shares: Any) -> Any:
    """Derivatives of the centered log shape by each share, weighted: k × q."""
    import numpy as np

    slopes = -losses / (1 + losses @ shares)[:, None]
    return np.sqrt(weights)[:, None] * (slopes - np.average(slopes, axis=0, weights=weights))


def _best(losses: Array, weights: Any, residuals: Any, squares: Any, q: int) -> Any:
    """Shares with the minimum sum of squares: the best of a coarse grid, then bounded Gauss-Newton."""
    import numpy as np

    axis = np.concatenate([[0.0], np.logspace(-6, 0, 31)])
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), axis=-1).reshape(-1, q)
    best = grid[int(np.argmin(squares(grid)))]
    for _ in range(100):
        slopes = _slopes(losses, weights, best)
        rest = np.sqrt(weights) * residuals(best)
        uphill = slopes.T @ rest
        free = ~(((best <= 0) & (uphill <= 0)) | ((best >= 1) & (uphill >= 0)))
        if not free.any():
            break
        step = np.zeros(q)
        step[free] = np.linalg.lstsq(slopes[:, free], rest, rcond=None)[0]
        before = float(squares(best))
        tried = np.clip(best + step * 0.5 ** np.arange(12)[:, None], 0, 1)
        sums = squares(tried)
        least = int(np.argmin(sums))
        if sums[least] >= before:
            break
        moved = float(np.max(np.abs(tried[least] - best)))
        best = tried[least]
        if moved < 1e-12:
            break
    return best


def _reach(half: float, there: float, back: float) -> float:
    """How far an interval for the sum of two independent estimates extends to one side.

    there, back  how far the law's own interval extends to this side and to the other; a share's bound cuts
                 it short on one, and the sum's is then longer than the cut one suggests
    Source: Zou & Donner, Statistics in Medicine 27 (2008) 1693-1702.
    """
    return max(math.hypot(half, there), min(math.hypot(half, back), half + there))


def _variance(least: float, degrees: int, scatter: Noise) -> tuple[float | None, int, float | None]:
    """Variance of a run about the law, its degrees of freedom, and the probability of such a misfit.

    If the means deviate from the law by more than the scatter explains, the deviations are the basis.
    """
    least = least if least > _EXACT else 0.0
    misfit = None
    if degrees and scatter.degrees and scatter.squares > _EXACT:
        from scipy.special import fdtrc

        ratio = (least / degrees) / (scatter.squares / scatter.degrees)
        misfit = float(fdtrc(degrees, scatter.degrees, ratio))
        if misfit < MISFIT:
            return least / degrees, degrees, misfit
    total, sum_squares = degrees + scatter.degrees, least + scatter.squares
    if not total or sum_squares <= _EXACT:
        return None, 0, misfit
    return sum_squares / total, total, misfit


def _edge(losses: Array, weights: Any, best: Any, squares: Any, limit: float, reach: float) -> Any:
    """Points where the sum of squares reaches the limit, or shares their bounds, in all directions."""
    import numpy as np

    q = len(best)
    slopes = _slopes(losses, weights, best)
    if q == 1:
        directions = np.array([[-1.0], [1.0]]) / np.linalg.norm(slopes)
    else:
        angles = np.linspace(0, 2 * np.pi, _RAYS, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        directions = circle @ np.linalg.inv(np.linalg.cholesky(slopes.T @ slopes))
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(
            directions > 0, (1 - best) / directions, np.where(directions < 0, -best / directions, np.inf)
        )
    farthest = np.min(room, axis=1)  # where a share meets its bound
    near = np.zeros(len(directions))
    far = np.minimum(farthest, reach * 4.0 ** np.arange(1, 30)[:, None])
    # The first of these distances that is beyond the limit brackets the edge.
    beyond = squares(best + far[..., None] * directions) > limit
    first = np.argmax(beyond, axis=0)
    inside = ~beyond.any(axis=0)
    columns = np.arange(len(directions))
    outer = np.where(inside, farthest, far[first, columns])
    near = np.where(first > 0, far[first - 1, columns], near)
    for _ in range(30):
        middle = (near + outer) / 2
        over = squares(best + middle[:, None] * directions) > limit
        outer, near = np.where(over, middle, outer), np.where(over, near, middle)
    distances = np.where(inside, farthest, near)
    return np.clip(best + distances[:, None] * directions, 0, 1)

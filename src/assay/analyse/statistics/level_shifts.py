"""Where a series changes its level: at once (a step) or gradually (a drift), by how much, how certainly.

The series is read as it grew, value by value. After each, the values since the last change are tested for a
step at any place and for a line: by how much one improves n·ln(residual sum of squares), for values that may
each resemble the one before (first-order autoregression, whose correlation is fitted with and without it). A
change is found when the improvement exceeds one price and the means differ also if each side of it has its
own spread. It is then never lost by values that follow. So it makes no difference whether a series is read
once or after each value: the number of values between false changes is the same, and is set by the price.

Sources: Hawkins, Qiu and Kang, Journal of Quality Technology 35 (2003) 355-366, for the test after each value
with nothing known in advance; Hansen, Econometrica 68 (2000) 575-603, for the set of possible places of a
step; Bai, Review of Economics and Statistics 79 (1997) 551-563, for both under dependence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from assay.analyse.statistics.intervals import ROUNDING, ratio_end, t_quantile
from assay.records import Estimate
from assay.units import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["step", "drift", "step-or-drift"]
FEWEST = 6  # values since the last change, from which on another can be found
SHORTEST_STRETCH = 2  # values: a single outlier is not a step
SHORTEST_DRIFT = 12  # values: a shorter one cannot be distinguished from a step
BETWEEN_FALSE_CHANGES = 500  # values at least, on average; benchmarks/history.py has what sets PRICE
_ALREADY = 25  # values: the first test, of several places at once, is worth that many later ones
PRICE = 15.0  # of a change, in units of n·ln(residual sum of squares)
_COMMON = 2  # values of the common spread that each side of a step counts with; benchmarks/history.py
_MEANS_DIFFER = 0.0003  # probability of means so far apart, if only the spread had changed
_CLEAR = 3.0  # in the same unit: how much better a drift or a step must fit to be named as what it is
_FAR = 4.0  # robust spreads from the median, to which a value that is far off alone is brought back
_FARTHEST = 299.0  # logarithm of 1e130 or of its inverse: of larger ones, a ratio may be no finite number
_CORRELATIONS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)  # of a value with the one before
_PLACE = 7.35  # in the unit of the price: 95 % for the place of a step (Hansen 2000, table 1)
# Nominal confidence of a change's size: stretches chosen for being far apart look quieter than they are.
_SIZE_CONFIDENCE = 0.975


@dataclass(frozen=True)
class LevelShift:
    """A change of level.

    after, before    indices of the last entry of the old level and of the first of the new one: most likely;
                     of a drift, the last one before it and the last one of it
    earliest, latest bounds of the first entry of the new level (95 %); of a drift, its first and last entries
    ratio            new level relative to the old one; its interval covers all these places together
    better           whether the change is an improvement; None if the metric has no direction, or if the
                     interval contains no change
    """

    after: int
    before: int
    earliest: int
    latest: int
    ratio: Estimate
    better: bool | None
    kind: Kind = "step"

    @property
    def certain(self) -> bool:
        """Whether the interval excludes that the level is unchanged."""
        low, high = self.ratio.low, self.ratio.high
        return (low is not None and low > 1) or (high is not None and high < 1)


@dataclass(frozen=True)
class Split:
    """Changes in a series of logarithms, oldest first.

    levels  logarithm of each stretch's level, of one that ends in a drift where the drift begins
    spread  of a value about its level, as a share; None if unknown
    reason  why there are no changes, or why none could be looked for; "" if there are some
    """

    steps: tuple[LevelShift, ...]
    levels: tuple[float, ...]
    spread: float | None
    reason: str


class _Change(NamedTuple):
    """Indices: the first entry that it moved, and the first that it no longer moves further than the last."""

    first: int
    last: int


def split(logs: Sequence[float]) -> Split:
    """Where the level of these values changes, oldest first; `LevelShift.better` is left open.

    At least 500 values lie between false changes on average, however often a series is read on the way: if
    values are independent, normal or with heavy tails (Student's t with 3 degrees of freedom), or resemble
    the one before (correlation up to 0.5). docs/explanation/statistics.md has the simulated figures.
    """
    import numpy as np

    x = np.asarray(logs, dtype=np.float64)
    if len(x) < FEWEST:
        reason = f"{counted(len(x), 'session')}; steps can be detected from {FEWEST} on"
        return Split((), (float(np.mean(x)),) if len(x) else (), None, reason)
    if np.ptp(x) < ROUNDING:
        return Split((), (float(x[0]),), None, "all sessions have the same value")
    if np.abs(x).max() > _FARTHEST:
        return Split((), (), None, "values above 1e130 or below 1e-130 are not compared")
    changes = _with_drifts(x, _placed(x, _found(x)))
    model = _Model(x, changes)
    steps = tuple(_shift(model, index) for index in range(len(changes)))
    reason = (
        ""
        if steps
        else f"no step (false ones are {BETWEEN_FALSE_CHANGES} sessions or more apart, on average)"
    )
    levels = tuple(map(float, np.cumsum(model.sizes)))
    return Split(steps, levels, math.expm1(math.sqrt(model.variance)), reason)


def false_change_rate(values: int) -> float:
    """Greatest probability that a series of this many values without a change shows one.

    >>> false_change_rate(5), round(false_change_rate(100), 2)
    (0.0, 0.22)
    """
    return 0.0 if values < FEWEST else -math.expm1(-(values + _ALREADY) / BETWEEN_FALSE_CHANGES)


def _found(x: NDArray[np.float64]) -> list[_Change]:
    """The changes as steps, each found with the values up to then alone."""
    changes: list[_Change] = []
    begin = 0
    for end in range(FEWEST, len(x) + 1):
        if end - begin < FEWEST:
            continue
        better_by = _improvements(_without_outliers(x[begin:end]))
        if better_by.max() <= PRICE:
            continue
        place = begin + SHORTEST_STRETCH + int(better_by[:-1].argmax())
        if _means_differ(x[begin:place], x[place:end]):
            begin = place
            changes.append(_Change(begin, begin))
    return changes


def _means_differ(old: NDArray[np.float64], new: NDArray[np.float64]) -> bool:
    """Whether the means differ, each stretch with its own spread: a new spread alone is no step.

    Welch's test; as if each stretch had `_COMMON` more values with the spread that is common to both, because
    two or three values say little about theirs.
    """
    import numpy as np
    from scipy.special import stdtr

    stretches = [stretch - stretch.mean() for stretch in (old, new)]
    squares = [float(np.sum(rest**2)) for rest in stretches]
    common = max(sum(squares), ROUNDING**2) / (len(old) + len(new) - 2)
    degrees = [len(rest) - 1 + _COMMON for rest in stretches]
    variances = [
        (own + _COMMON * common) / freedom / len(rest)
        for own, freedom, rest in zip(squares, degrees, stretches, strict=True)
    ]
    whole = sum(variances)
    freedom = whole**2 / sum(variance**2 / each for variance, each in zip(variances, degrees, strict=True))
    apart = abs(float(new.mean() - old.mean())) / math.sqrt(whole)
    return 2 * float(stdtr(freedom, -apart)) <= _MEANS_DIFFER


def _without_outliers(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances from the median; one that no neighbor shares is brought back to `_FAR` robust spreads."""
    import numpy as np

    distances = x - np.median(x)
    far = _FAR * 1.4826 * float(np.median(np.abs(distances)))
    kept = np.zeros_like(distances)
    for sign in (1, -1):
        away = np.maximum(sign * distances, 0)
        neighbors = np.concatenate(([0.0], away, [0.0]))
        kept += sign * np.minimum(away, np.maximum(far, np.maximum(neighbors[:-2], neighbors[2:])))
    return kept


def _improvements(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much a change improves n·ln(residual sum of squares).

    One of a step at each place from `SHORTEST_STRETCH` on; the last is of a drift through all values. With
    and without it, the correlation is the likeliest (of a Gaussian first-order autoregression).
    """
    import numpy as np

    n = len(x)
    rho, constant, squares, across, own = _decorrelated_changes(n)
    y = _decorrelated(x, rho)
    level = np.sum(constant * y, axis=1, keepdims=True) / squares
    rest = np.sum(y**2, axis=1, keepdims=True) - level**2 * squares
    gains = (_along_changes(y, rho) - level * across) ** 2 / own

    def misfit(rests: NDArray[np.float64]) -> NDArray[np.float64]:
        logs = n * np.log(np.maximum(rests, n * ROUNDING**2)) - np.log1p(-(rho**2))
        best: NDArray[np.float64] = np.min(logs, axis=0)
        return best

    return misfit(rest) - misfit(rest - gains)


@lru_cache(maxsize=1024)
def _decorrelated_changes(n: int) -> tuple[NDArray[np.float64], ...]:
    """For n values: the correlations, and what least squares need of a constant and of the changes.

    That is the decorrelated constant and its sum of squares; of each change, its product with the constant,
    and its sum of squares without the part along the constant. Each has a row per correlation.
    """
    import numpy as np

    rho = np.array(_CORRELATIONS)[:, None]
    constant, drift = (_decorrelated(values, rho) for values in (np.ones(n), np.arange(float(n))))
    squares = np.sum(constant**2, axis=1, keepdims=True)
    across = _along_changes(constant, rho)
    later = np.arange(n - 1, -1, -1)[_places_in(n)]  # values after a step's first one
    own = np.hstack([1 + (1 - rho) ** 2 * later, np.sum(drift**2, axis=1, keepdims=True)])
    return rho, constant, squares, across, own - across**2 / squares


def _decorrelated(x: NDArray[np.float64], rho: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.hstack([np.sqrt(1 - rho**2) * x[0], x[1:] - rho * x[:-1]])


def _along_changes(y: NDArray[np.float64], rho: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products of a decorrelated series with each decorrelated change: a step is 1 at first, then 1 − ρ."""
    import numpy as np

    n = y.shape[1]
    to_the_end = np.cumsum(y[:, ::-1], axis=1)[:, ::-1]
    steps = (rho * y + (1 - rho) * to_the_end)[:, _places_in(n)]
    drift = np.sum(_decorrelated(np.arange(float(n)), rho) * y, axis=1, keepdims=True)
    return np.hstack([steps, drift])


def _places_in(n: int) -> slice:
    return slice(SHORTEST_STRETCH, n - SHORTEST_STRETCH + 1)


def _with_drifts(x: NDArray[np.float64], changes: list[_Change]) -> list[_Change]:
    """The same changes, runs of steps in one direction replaced by a drift where it explains them better."""
    index = 0
    while index < len(changes):
        model = _Model(x, changes)
        for until in range(len(changes), index, -1):
            if len({size > 0 for size in model.sizes[index + 1 : until + 1]}) == 1:
                drift = _drift(x, changes, index, until)
                if drift is not None and drift.price + _CLEAR < model.price:
                    changes = list(drift.changes)
                    break
        index += 1
    return changes


def _drift(x: NDArray[np.float64], changes: Sequence[_Change], index: int, until: int) -> _Model | None:
    """The model with one drift in place of these changes; None if there is no room for one."""
    left = changes[index - 1].last if index else 0
    right = changes[until].first if until < len(changes) else len(x)
    first, last = left + 1, right - 1
    if last - first + 1 < SHORTEST_DRIFT:
        return None

    def best(drifts: Iterable[_Change]) -> _Model:
        models = (_Model(x, [*changes[:index], drift, *changes[until:]]) for drift in drifts)
        return min(models, key=lambda model: model.squares)

    for _ in range(2):
        begun = best(_Change(begin, last) for begin in range(left + 1, last - SHORTEST_DRIFT + 2))
        first = begun.changes[index].first
        model = best(_Change(first, end) for end in range(first + SHORTEST_DRIFT - 1, right))
        last = model.changes[index].last
    return model


def _placed(x: NDArray[np.float64], changes: Sequence[_Change]) -> list[_Change]:
    """The same changes, each step where all values together place it."""
    placed = list(changes)
    for index in range(len(placed)):  # all are steps still
        places = _places(len(x), placed, index)
        squares = [_Model(x, [*placed[:index], place, *placed[index + 1 :]]).squares for place in places]
        placed[index] = places[squares.index(min(squares))]
    return placed


def _places(n: int, changes: Sequence[_Change], index: int) -> list[_Change]:
    """Where a step may be between its neighbors, as it is included; of a drift, where one of its ends may be.

    A step can be nearer to a neighbor than `SHORTEST_STRETCH`: a drift may have taken the values between.
    """
    first, last = changes[index]
    left = changes[index - 1].last if index else 0
    right = changes[index + 1].first if index + 1 < len(changes) else n
    if first == last:
        earliest, latest = min(first, left + SHORTEST_STRETCH), max(first, right - SHORTEST_STRETCH)
        return [_Change(place, place) for place in range(earliest, latest + 1)]
    begun = [_Change(begin, last) for begin in range(left + 1, last - SHORTEST_DRIFT + 2)]
    return begun + [_Change(first, end) for end in range(first + SHORTEST_DRIFT - 1, right)]


class _Model:
    """Least squares of the first level and of these changes together.

    sizes        of the first level and of each change
    squares      sum of the residuals'
    price        n·ln(squares) and that of the changes
    variance     of a value about its level
    dependence   by how much the variance of a mean of many values exceeds that of independent ones
    """

    def __init__(self, x: NDArray[np.float64], changes: Sequence[_Change]) -> None:
        import numpy as np

        self.x, self.changes = x, changes
        first, last = (np.array([change[end] for change in changes], dtype=float) for end in (0, 1))
        t = np.arange(len(x))[:, None]
        moved = np.clip((t - first + 1) / (last - first + 1), 0, 1)
        self._design = np.hstack([np.ones_like(t), moved])
        self.sizes: Any = np.linalg.lstsq(self._design, x, rcond=None)[0]
        residuals = x - self._design @ self.sizes
        self.squares = max(float(np.sum(residuals**2)), len(x) * ROUNDING**2)
        self.price = len(x) * math.log(self.squares) + PRICE * len(changes)
        self.degrees = len(x) - len(changes) - 1
        self.variance = self.squares / self.degrees
        rho = max(0.0, float(np.sum(residuals[1:] * residuals[:-1])) / self.squares)
        self.dependence = (1 + rho) / (1 - rho)
        self._squared_residuals = residuals**2

    def span(self, index: int, reach: float) -> tuple[float, float]:
        """The interval of a change's size; reach: its half-width in standard deviations of the size.

        Each stretch has its own variance, where that is greater than the one common to all.
        """
        import numpy as np

        of_values = np.linalg.pinv(self._design)[index + 1]
        half = reach * math.sqrt(float(np.sum(of_values**2 * self._variances())))
        return self.sizes[index + 1] - half, self.sizes[index + 1] + half

    def _variances(self) -> NDArray[np.float64]:
        """Of each value about its level."""
        import numpy as np

        stretches = np.split(self._squared_residuals, [change.first for change in self.changes])
        own = [float(stretch.sum()) / max(1, len(stretch) - 1) for stretch in stretches]
        return np.repeat(np.maximum(own, self.variance), [len(stretch) for stretch in stretches])


def _shift(model: _Model, index: int) -> LevelShift:
    """One of the changes, with the others fixed."""
    changes, n = model.changes, len(model.x)
    moved = [
        _Model(model.x, [*changes[:index], place, *changes[index + 1 :]])
        for place in _places(n, changes, index)
    ]
    first, last = changes[index]
    limit = _PLACE * model.dependence
    possible = [refit for refit in moved if n * math.log(refit.squares / model.squares) <= limit]
    reach = t_quantile((1 + _SIZE_CONFIDENCE) / 2, model.degrees)
    reach *= math.sqrt(model.dependence)
    lows, highs = zip(*(refit.span(index, reach) for refit in possible), strict=True)
    left = changes[index - 1].last if index else 0
    right = changes[index + 1].first if index + 1 < len(changes) else n
    size = math.exp(model.sizes[index + 1])
    steps = [refit.changes[index].first for refit in possible if first == last]
    return LevelShift(
        after=first - 1,
        before=last,
        earliest=min(steps, default=first),
        latest=max(steps, default=last),
        ratio=Estimate(size, ratio_end(min(lows)), ratio_end(max(highs)), right - left, ""),
        better=None,
        kind=_kind(model, index),
    )


def _kind(model: _Model, index: int) -> Kind:
    change = model.changes[index]
    if change.last > change.first:
        return "drift"
    drift = _drift(model.x, model.changes, index, index + 1)
    return "step" if drift is None or drift.price > model.price + _CLEAR else "step-or-drift"

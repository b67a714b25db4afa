"""How probable it is of each change on a line of stacks that it is responsible, and what confirms it.

A line is a row of stacks: cut 0 is the good end, and cut k has the first k changes. Change j lies between cut
j and cut j + 1. All probabilities are posterior ones, so they hold whenever one stops, if changes are equally
likely to be responsible beforehand and the noise is as modeled.

Stacks that were built again, with and without a change, confirm what a search found. Each built environment
can be faster or slower by itself, by where its files and its memory happen to be, in all of its runs. So the
build is the unit of replication there, and builds that the search has measured don't count: the search chose
the change by them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.analyse.statistics.intervals import t_quantile

if TYPE_CHECKING:
    from numpy import ndarray

TWO_STEPS: Final = 0.1
"""Probability, before anything is measured, that two changes have an effect instead of one."""
_SHIFTS: Final = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Variances of the builds' shifts as multiples of the noise's, equally likely before anything is measured."""
_RESOLUTION: Final = 1e-4  # on the log scale: what is closer is equal, so that noise is never taken to be 0


Node = tuple[int, int]
"""A cut, and which of its builds."""


@dataclass(frozen=True)
class Posterior:
    """Probabilities of the changes on a line.

    responsible  that the change makes the stack worse; the sum may exceed 1, since two changes may
    first        that it is the first one on the line to do so
    """

    responsible: tuple[float, ...]
    first: tuple[float, ...]


def of_slowdown(size: int, blocks: Sequence[Mapping[Node, float]], margin: float) -> Posterior:
    """Which changes make the stack slower by more than the margin.

    size    number of changes; both ends must be in some block
    blocks  build → logarithm of its speed; each block has a shift of its own, which doesn't matter
    margin  on the log scale: no change with a smaller effect is considered

    The model: the speed has one step or two along the line, of unknown size and either direction, each build
    has a lasting shift of unknown spread, and noise is normal, of unknown spread. Marginal likelihoods are
    Schwarz's approximation (BIC); over the builds' spread they are summed.
    """
    import numpy as np

    nodes = sorted({node for block in blocks for node in block})
    after = np.array([[float(cut > change) for cut, _ in nodes] for change in range(size)])
    measured = _normal_equations(nodes, blocks)
    parts = [_step_likelihoods(after, _with_shifts(measured, ratio), margin) for ratio in _SHIFTS]
    most = max(max(steps.logs.max(initial=-np.inf) for steps in part) for part in parts)
    if most == -np.inf:
        return Posterior((0.0,) * size, (0.0,) * size)
    responsible, first = np.zeros(size), np.zeros(size)
    in_all = 0.0
    for one_step, two_steps in parts:
        for steps in (one_step, two_steps):
            weights = np.exp(steps.logs - most)
            in_all += float(weights.sum())
            slower = steps.effects < 0
            for changes, worse in zip(steps.changes, slower, strict=True):
                np.add.at(responsible, changes, weights * worse)
            earliest = steps.changes[slower.argmax(axis=0), np.arange(weights.size)]
            np.add.at(first, earliest, weights * slower.any(axis=0))
    return Posterior(tuple((responsible / in_all).tolist()), tuple((first / in_all).tolist()))


@dataclass(frozen=True)
class _Measured:
    """Normal equations of the nodes' speeds, with the blocks' shifts removed.

    shrunk  logarithm of what the builds' shifts take from the likelihood
    """

    weights: ndarray
    sums: ndarray
    total: float
    degrees: int
    shrunk: float = 0.0


@dataclass(frozen=True)
class _Steps:
    """Hypotheses with one or two steps: changes and effects, a row per step; log of likelihood and prior."""

    changes: ndarray
    effects: ndarray
    logs: ndarray


def _step_likelihoods(after: ndarray, measured: _Measured, margin: float) -> tuple[_Steps, _Steps]:
    """Every place of one step, and every pair of places of two."""
    import numpy as np

    size, degrees = len(after), measured.degrees
    a, h = after @ measured.weights @ after.T, after @ measured.sums
    floor = degrees * _RESOLUTION**2
    diagonal = np.diag(a)
    step = h / diagonal
    one_step = -(degrees - 1) / 2 * np.log(np.maximum(measured.total - h * step, 0) + floor)
    one_step = np.where(
        np.abs(step) > margin, one_step + math.log((1 - TWO_STEPS) / size) + measured.shrunk, -np.inf
    )
    i, j = (index.ravel() for index in np.triu_indices(size, 1))
    determinant = diagonal[i] * diagonal[j] - a[i, j] ** 2
    apart = determinant > 1e-9 * diagonal[i] * diagonal[j]  # else no measured cut is between them
    i, j, determinant = i[apart], j[apart], determinant[apart]
    first = (diagonal[j] * h[i] - a[i, j] * h[j]) / determinant
    second = (diagonal[i] * h[j] - a[i, j] * h[i]) / determinant
    left = np.maximum(measured.total - first * h[i] - second * h[j], 0) + floor
    two_steps = -max(degrees - 2, 0) / 2 * np.log(left) - math.log(degrees) / 2
    two_steps += math.log(TWO_STEPS / max(size * (size - 1) / 2, 1)) + measured.shrunk
    two_steps = np.where((np.abs(first) > margin) & (np.abs(second) > margin), two_steps, -np.inf)
    return (
        _Steps(np.arange(size)[np.newaxis], step[np.newaxis], one_step),
        _Steps(np.stack((i, j)), np.stack((first, second)), two_steps),
    )


def _with_shifts(measured: _Measured, ratio: float) -> _Measured:
    """The equations where each build has a shift whose variance is this multiple of the noise's."""
    import numpy as np

    if ratio == 0:
        return measured
    weights, sums = measured.weights, measured.sums
    whole = np.eye(len(sums)) + ratio * weights
    taken = ratio * np.linalg.solve(whole, np.column_stack((weights, sums)))
    return _Measured(
        weights - weights @ taken[:, :-1],
        sums - weights @ taken[:, -1],
        measured.total - float(sums @ taken[:, -1]),
        measured.degrees,
        -float(np.linalg.slogdet(whole)[1]) / 2,
    )


def _normal_equations(nodes: Sequence[Node], blocks: Sequence[Mapping[Node, float]]) -> _Measured:
    import numpy as np

    place = {node: row for row, node in enumerate(nodes)}
    weights, sums = np.zeros((len(nodes), len(nodes))), np.zeros(len(nodes))
    total, degrees = 0.0, 0
    for block in blocks:
        if len(block) < 2:
            continue
        rows = [place[node] for node in block]
        values = np.array(list(block.values()))
        values = values - values.mean()
        weights[np.ix_(rows, rows)] += np.eye(len(rows)) - 1 / len(rows)
        sums[rows] += values
        total += float(values @ values)
        degrees += len(rows) - 1
    return _Measured(weights, sums, total, degrees)


def of_failure(size: int, blocks: Sequence[Mapping[int, bool]]) -> Posterior:
    """Which change makes the stack fail.

    blocks  cut → whether it failed

    The model: stacks before the change fail with one unknown probability and stacks after it with another,
    both Beta(½, ½). So failures may come and go.
    """
    failed, passed = [0] * (size + 1), [0] * (size + 1)
    for block in blocks:
        for cut, failure in block.items():
            (failed if failure else passed)[cut] += 1
    logs = []
    for change in range(size):
        before = _log_beta(sum(failed[: change + 1]), sum(passed[: change + 1]))
        logs.append(before + _log_beta(sum(failed[change + 1 :]), sum(passed[change + 1 :])))
    most = max(logs)
    likelihoods = [math.exp(log - most) for log in logs]
    probabilities = tuple(likelihood / sum(likelihoods) for likelihood in likelihoods)
    return Posterior(probabilities, probabilities)


def fails_more(good: tuple[int, int], bad: tuple[int, int]) -> float:
    """Probability that the bad stack fails more often than the good one, each with its failures and passes.

    Beforehand, an equal probability of failure and two different ones are equally likely.
    """
    if bad[0] * sum(good) <= good[0] * sum(bad):
        return 0.0
    apart = _log_beta(*good) + _log_beta(*bad) - _log_beta(0, 0)
    return 1 / (1 + math.exp(_log_beta(good[0] + bad[0], good[1] + bad[1]) - apart))


def _log_beta(failed: int, passed: int) -> float:
    return math.lgamma(failed + 0.5) + math.lgamma(passed + 0.5) - math.lgamma(failed + passed + 1)


def next_cut(
    first: Sequence[float], open_cuts: Sequence[int], measured: Mapping[int, int], *, reuse: bool
) -> int:
    """The cut to measure next: near the posterior's median, and of equal ones that with the fewest blocks.

    first      probability of each change that it is the first responsible one
    open_cuts  those between the ends that can be built, at least one
    measured   cut → blocks so far
    reuse      rather one that has blocks, if it is near enough
    """
    whole = math.fsum(first) or 1.0
    below = {cut: math.fsum(first[:cut]) / whole for cut in open_cuts}
    built = [cut for cut in open_cuts if reuse and measured.get(cut) and 0.2 <= below[cut] <= 0.8]
    return min(built or open_cuts, key=lambda cut: (round(abs(below[cut] - 0.5), 3), measured.get(cut, 0)))


def groups(size: int, closed_cuts: Sequence[int]) -> list[tuple[int, ...]]:
    """The changes, those together that no stack which can be built separates."""
    grouped: list[list[int]] = []
    for change in range(size):
        if change in closed_cuts:
            grouped[-1].append(change)
        else:
            grouped.append([change])
    return [tuple(group) for group in grouped]


LOOKS: Final = (3, 5, 8)
"""New builds of each of the two stacks at the looks; at the last one, it is over.

Never two of each: where builds are of two kinds, fast and slow, the two of one stack are fast and those of
the other slow in one of 16 cases, without any spread to see.
"""
_LIKELY: Final = 3.3  # standard errors: the interval at many builds, and a power of 80 %


@dataclass(frozen=True)
class SpeedEffect:
    """Logarithm of a ratio of speeds with its interval."""

    log: float
    low: float
    high: float


@dataclass(frozen=True)
class Confirmation:
    """The result of new builds with and without a change.

    effect  of the change; if it has none, all intervals at all looks together contain that in 1 − error
    builds  of each of the two stacks
    spread  standard deviation between builds of one stack as they were measured, on the log scale
    """

    effect: SpeedEffect
    builds: int
    spread: float

    @property
    def slower(self) -> bool:
        """Whether the change makes the stack slower."""
        return self.effect.high < 0

    def equal(self, margin: float) -> bool:
        """Whether it makes the stack slower by less than the margin, on the log scale, if at all."""
        return self.effect.low > -margin

    @property
    def needed(self) -> int | None:
        """Builds of each that would likely show an effect as large as this one; None for no slowdown."""
        if self.effect.log >= 0:
            return None
        return max(math.ceil(2 * (_LIKELY * self.spread / self.effect.log) ** 2), self.builds + 1)


def judged_confirmation(without: Sequence[float], having: Sequence[float], error: float) -> Confirmation:
    """What new builds of two stacks say: Student's t with the builds' common variance.

    without, having  logarithm of the speed of each build, at least two of each
    error            probability that any look shows an effect one way if there is none
    """
    means = [math.fsum(side) / len(side) for side in (without, having)]
    squares = math.fsum((log_speed - means[0]) ** 2 for log_speed in without)
    squares += math.fsum((log_speed - means[1]) ** 2 for log_speed in having)
    degrees = len(without) + len(having) - 2
    spread = math.sqrt(squares / degrees)
    quantile = t_quantile(1 - error / len(LOOKS), degrees)
    half = quantile * spread * math.sqrt(1 / len(without) + 1 / len(having))
    log = means[1] - means[0]
    return Confirmation(SpeedEffect(log, log - half, log + half), min(len(without), len(having)), spread)

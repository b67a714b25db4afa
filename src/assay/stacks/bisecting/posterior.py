"""How probable it is of each change on a line of stacks that it is responsible, given blocks of measurements.

A line is a row of stacks: cut 0 is the good end, and cut k has the first k changes. Change j lies between cut
j and cut j + 1. All probabilities are posterior ones, so they hold whenever one stops, if changes are equally
likely to be responsible beforehand and the noise is as modeled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numpy import ndarray

TWO_STEPS: Final = 0.1
"""Probability, before anything is measured, that two changes have an effect instead of one."""
_RESOLUTION: Final = 1e-4  # on the log scale: what is closer is equal, so that noise is never taken to be 0


@dataclass(frozen=True)
class Posterior:
    """Probabilities of the changes on a line.

    responsible  that the change makes the stack worse; the sum may exceed 1, since two changes may
    first        that it is the first one on the line to do so
    """

    responsible: tuple[float, ...]
    first: tuple[float, ...]


def of_slowdown(size: int, blocks: Sequence[Mapping[int, float]], margin: float) -> Posterior:
    """Which changes make the stack slower by more than the margin.

    size    number of changes; both ends must be in some block
    blocks  cut → logarithm of its speed; each block has a shift of its own, which doesn't matter
    margin  on the log scale: no change with a smaller effect is considered

    The model: the speed has one step or two along the line, of unknown size and either direction, and normal
    noise of unknown spread. Marginal likelihoods are Schwarz's approximation (BIC).
    """
    import numpy as np

    cuts = sorted({cut for block in blocks for cut in block})
    weights, sums, total, degrees = _normal_equations(cuts, blocks)
    after = np.array([[float(cut > change) for cut in cuts] for change in range(size)])
    a, h = after @ weights @ after.T, after @ sums
    floor = degrees * _RESOLUTION**2
    diagonal = np.diag(a)
    step = h / diagonal
    one = -(degrees - 1) / 2 * np.log(np.maximum(total - h * step, 0) + floor)
    one = np.where(np.abs(step) > margin, one + math.log((1 - TWO_STEPS) / size), -np.inf)
    i, j = (index.ravel() for index in np.triu_indices(size, 1))
    determinant = diagonal[i] * diagonal[j] - a[i, j] ** 2
    apart = determinant > 1e-9 * diagonal[i] * diagonal[j]  # else no measured cut is between them
    i, j, determinant = i[apart], j[apart], determinant[apart]
    first = (diagonal[j] * h[i] - a[i, j] * h[j]) / determinant
    second = (diagonal[i] * h[j] - a[i, j] * h[i]) / determinant
    left = np.maximum(total - first * h[i] - second * h[j], 0) + floor
    two = -max(degrees - 2, 0) / 2 * np.log(left) - math.log(degrees) / 2
    two += math.log(TWO_STEPS / max(size * (size - 1) / 2, 1))
    two = np.where((np.abs(first) > margin) & (np.abs(second) > margin), two, -np.inf)
    most = max(one.max(initial=-np.inf), two.max(initial=-np.inf))
    if most == -np.inf:
        return Posterior((0.0,) * size, (0.0,) * size)
    one, two = np.exp(one - most), np.exp(two - most)
    in_all = one.sum() + two.sum()
    responsible = one * (step < 0)
    earliest = responsible.copy()
    np.add.at(responsible, i, two * (first < 0))
    np.add.at(responsible, j, two * (second < 0))
    np.add.at(earliest, np.where(first < 0, i, j), two)
    return Posterior(tuple((responsible / in_all).tolist()), tuple((earliest / in_all).tolist()))


def _normal_equations(
    cuts: Sequence[int], blocks: Sequence[Mapping[int, float]]
) -> tuple[ndarray, ndarray, float, int]:
    """Of the cuts' speeds with the blocks' shifts removed: matrix, vector, sum of squares, degrees."""
    import numpy as np

    place = {cut: at for at, cut in enumerate(cuts)}
    weights, sums = np.zeros((len(cuts), len(cuts))), np.zeros(len(cuts))
    total, degrees = 0.0, 0
    for block in blocks:
        if len(block) < 2:
            continue
        at = [place[cut] for cut in block]
        values = np.array(list(block.values()))
        values = values - values.mean()
        weights[np.ix_(at, at)] += np.eye(len(at)) - 1 / len(at)
        sums[at] += values
        total += float(values @ values)
        degrees += len(at) - 1
    return weights, sums, total, degrees


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
    found = [math.exp(one - most) for one in logs]
    probabilities = tuple(one / sum(found) for one in found)
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


def next_cut(first: Sequence[float], open_cuts: Sequence[int], measured: Mapping[int, int]) -> int:
    """The cut to measure next: near the posterior's median, and rather one that is built already.

    first      probability of each change that it is the first responsible one
    open_cuts  those between the ends that can be built, at least one
    measured   cut → blocks so far; those that it lacks must be built first
    """
    whole = math.fsum(first) or 1.0
    below = {cut: math.fsum(first[:cut]) / whole for cut in open_cuts}
    built = [cut for cut in open_cuts if measured.get(cut) and 0.2 <= below[cut] <= 0.8]
    return min(built or open_cuts, key=lambda cut: (round(abs(below[cut] - 0.5), 3), measured.get(cut, 0)))


def groups(size: int, closed_cuts: Sequence[int]) -> list[tuple[int, ...]]:
    """The changes, those together that no stack which can be built separates."""
    found: list[list[int]] = []
    for change in range(size):
        if change in closed_cuts:
            found[-1].append(change)
        else:
            found.append([change])
    return [tuple(one) for one in found]

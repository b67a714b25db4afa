"""Which rank of a running job is slower than the others, and whether the job has stopped. Pure.

A job is looked at after every 64 steps. Over all looks together, a healthy job has a rank named with a
probability of at most 5 %: look j gets 5 % · 6/(π² j²), each of R ranks an R-th of it. A rank's figure is the
median over a stretch of steps of its time relative to the median rank's in the same step, so what slows all
ranks alike plays no part, and a single long pause little. Its error comes from how eight stretches differ,
which allows for steps that resemble their neighbors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

LEVEL: Final = 0.05  # probability that a healthy job ever has a rank named
EVERY: Final = 64  # steps between looks
WARM_UP: Final = 16  # steps before a silence can be a stop: the first ones compile and read data anew
WINDOW: Final = 256  # steps that a look considers, the newest ones
STRETCHES: Final = 8
LEAST_RATIO: Final = 1.05  # a rank that is closer to the others is not worth a look
SILENT_S: Final = 60.0  # shorter silences are never a stop
SILENT_GAPS: Final = 8.0  # longest gaps between two steps that a silence must exceed


@dataclass(frozen=True)
class Straggler:
    """A rank that is slower than the others.

    ratio  of its step time to the median of the others', with the ends of a 95 % interval
    steps  on which it rests
    """

    rank: int
    ratio: float
    low: float
    high: float
    steps: int


@dataclass(frozen=True)
class Stop:
    """No rank has taken a step for much longer than ever before.

    behind  ranks whose last step is an earlier one than others'; () if all are at the same
    """

    silent_s: float
    longest_gap_s: float
    step: int
    behind: tuple[int, ...]


def stragglers(times: Mapping[int, Mapping[int, float]]) -> list[Straggler]:
    """The ranks that are slower, the slowest first; [] if there are too few ranks or steps to tell.

    times  rank → step → seconds that the step took this rank by itself. Ranks that wait for each other in
           each step take the same time, whoever is slow: then nobody is named.
    """
    if len(times) < 2:
        return []
    common = set.intersection(*(set(own) for own in times.values()))
    newest = max(common, default=0)
    number = newest // EVERY
    steps = sorted(step for step in common if number * EVERY - WINDOW < step <= number * EVERY)
    if number == 0 or len(steps) < EVERY // 2:
        return []
    ranks = sorted(times)
    seconds = np.array([[times[rank][step] for step in steps] for rank in ranks])
    if not (np.isfinite(seconds) & (seconds > 0)).all():
        return []
    from scipy.stats import t as student

    logs = np.log(seconds)
    means, errors = _relative(logs, np.median(logs, axis=0))
    errors = np.maximum(errors, np.median(errors))
    limit = float(student.isf(LEVEL * 6 / math.pi**2 / number**2 / len(ranks), STRETCHES - 1))
    slow = (means > limit * errors) & (means >= math.log(LEAST_RATIO))
    half = float(student.isf(0.025, STRETCHES - 1))
    found = []
    for at in np.flatnonzero(slow):
        ((mean,), (error,)) = _relative(logs[[at]], np.median(np.delete(logs, at, axis=0), axis=0))
        low, high = math.exp(mean - half * error), math.exp(mean + half * error)
        found.append(Straggler(ranks[at], math.exp(mean), low, high, len(steps)))
    return sorted(found, key=lambda one: -one.ratio)


def _relative(logs: Matrix, reference: Matrix) -> tuple[Matrix, Matrix]:
    """Mean over the stretches of each rank's median relative to a reference, and its standard error."""
    stretches = np.array_split(logs - reference, STRETCHES, axis=1)
    medians = np.array([np.median(part, axis=1) for part in stretches])
    return medians.mean(axis=0), medians.std(axis=0, ddof=1) / math.sqrt(STRETCHES)


def stop(at: Mapping[int, Sequence[tuple[int, float]]], now: float) -> Stop | None:
    """Whether the job has stopped.

    at   rank → (step, when it was taken, seconds since 1970) in their order
    now  seconds since 1970

    None before 16 steps. Of simulated jobs of 1,000 steps whose pauses follow a Pareto law (exponent 2.5), at
    most 3 of 100 were said to have stopped.
    """
    moments = sorted(when for own in at.values() for _, when in own)
    last = {rank: own[-1][0] for rank, own in at.items() if own}
    if not last or max(map(len, at.values())) < WARM_UP:
        return None
    longest_s = max((b[1] - a[1] for own in at.values() for a, b in pairwise(own)), default=0.0)
    silent_s = now - moments[-1]
    if silent_s <= max(SILENT_S, SILENT_GAPS * longest_s):
        return None
    newest = max(last.values())
    behind = tuple(sorted(rank for rank, step in last.items() if step < newest))
    missing = tuple(sorted(set(at) - set(last)))
    return Stop(silent_s, longest_s, newest, behind + missing)

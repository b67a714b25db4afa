"""Time of an exchange by size as t(n) = α + n·β: a latency and the time per byte, fitted to one run.

Errors are relative (a microsecond of ten counts as much as a millisecond of ten), so logarithms are fitted;
and robust: a disturbed size has less weight, by Huber's weights. Sources: for the model, Hockney, Parallel
Computing 20 (1994) 389-398, whose n½ = α/β is the size at which half of 1/β is reached; for the weights,
Huber, Annals of Mathematical Statistics 35 (1964) 73-101.

Protocols that change with the size bend the curve, and then no such line fits. Each run is fitted separately,
so that errors common to its sizes don't make the results look more certain; `misfit` compares the runs' means
with their lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LEAST_SIZES: Final = 4
_HUBER: Final = 1.345  # standard deviations: 95 % as efficient as least squares without disturbances
_STEPS: Final = 100
_EXACT: Final = 1e-9  # of a logarithm
Array = Any  # a numpy array; numpy itself is imported where it is used


@dataclass(frozen=True)
class Line:
    """α in seconds and β in seconds per byte, both above 0.

    residuals  log of measured over fitted time, by size in bytes
    """

    alpha_s: float
    beta_s: float
    residuals: Mapping[int, float]

    @property
    def half_bytes(self) -> float:
        """n½: the size at which half of the asymptotic bandwidth is reached."""
        return self.alpha_s / self.beta_s

    def seconds(self, size_bytes: float) -> float:
        """Time of one exchange.

        >>> Line(1e-5, 1e-9, {}).seconds(10_000)
        2e-05
        """
        return self.alpha_s + size_bytes * self.beta_s


def fit(seconds: Mapping[int, float]) -> Line | None:
    """The line of one run; None for fewer than four sizes, or if it is at the edge of what they show.

    seconds  size in bytes → seconds, all above 0

    Only short sizes show no bandwidth, and only long ones no latency: n½ has to be between
    the smallest and the largest.
    """
    import numpy as np

    if len(seconds) < LEAST_SIZES:
        return None
    sizes = np.array(sorted(seconds), dtype=float)
    logs = np.log([seconds[int(n)] for n in sizes])
    log_parameters = _fitted(sizes, logs)
    residuals = logs - _log_time(sizes, log_parameters)
    alpha, beta = np.exp(log_parameters)
    line = Line(float(alpha), float(beta), dict(zip(map(int, sizes), map(float, residuals), strict=True)))
    return line if sizes[0] <= line.half_bytes <= sizes[-1] else None


def _log_time(sizes: Array, log_parameters: Array) -> Array:
    import numpy as np

    return np.logaddexp(log_parameters[0], log_parameters[1] + np.log(sizes))


def _fitted(sizes: Array, logs: Array) -> Array:
    """Logarithms of α and β by Gauss–Newton on reweighted squares, each step halved until it helps."""
    import numpy as np

    log_parameters = np.array([logs.min(), logs[-1] - np.log(sizes[-1])])
    for _ in range(_STEPS):
        rest = logs - _log_time(sizes, log_parameters)
        root = np.sqrt(_weights(rest))
        latency = np.exp(log_parameters[0] - _log_time(sizes, log_parameters))  # share of α in the time
        slopes = np.stack([latency, 1 - latency], axis=1)
        step = np.linalg.lstsq(slopes * root[:, None], rest * root, rcond=None)[0]
        step = np.clip(step, -1, 1)
        before = float(np.sum((rest * root) ** 2))
        for _ in range(12):
            if np.sum((root * (logs - _log_time(sizes, log_parameters + step))) ** 2) <= before:
                break
            step = step / 2
        log_parameters = log_parameters + step
        if np.abs(step).max() < _EXACT:
            break
    return log_parameters


def _weights(rest: Array) -> Array:
    """Huber's, by the median size of the residuals."""
    import numpy as np

    spread = 1.4826 * float(np.median(np.abs(rest)))
    size = np.abs(rest)
    return np.where(size > _HUBER * spread, _HUBER * spread / np.maximum(size, _EXACT), 1.0)


@dataclass(frozen=True)
class Misfit:
    """How far sizes deviate from the lines of their runs.

    size_bytes   with the largest deviation, in the mean of the runs
    share        how far: measured over fitted − 1
    probability  of deviations this large overall, if the lines were true; None for a single run
    """

    size_bytes: int
    share: float
    probability: float | None


def misfit(lines: Sequence[Line]) -> Misfit:
    """The common part of the runs' deviations from their lines, compared with the individual part.

    The ratio of the two variances has an F distribution if they scatter alike at all sizes. Sizes that a run
    lacks are left out. Raises ValueError if no size is common.
    """
    import numpy as np
    from scipy.special import fdtrc

    common = sorted(set.intersection(*(set(line.residuals) for line in lines)))
    table = np.array([[line.residuals[size] for size in common] for line in lines])
    mean = table.mean(axis=0)
    worst = int(np.argmax(np.abs(mean)))
    runs, free = len(lines), len(common) - 2
    scatter = float(np.sum((table - mean) ** 2))
    probability = None
    if runs > 1 and free > 0 and scatter > _EXACT**2:
        ratio = (runs * float(np.sum(mean**2)) / free) / (scatter / ((runs - 1) * free))
        probability = float(fdtrc(free, (runs - 1) * free, ratio))
    return Misfit(common[worst], math.expm1(float(mean[worst])), probability)

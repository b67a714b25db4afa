"""Runs drawn with the disturbances of clusters: logarithms of two sides, in running order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Design = Literal["interleaved", "back to back"]
Noise = Callable[[np.random.Generator, int, int], Floats]

OFF = 10.0  # deviation of a contaminated run, in spreads
SHARE_OFF = 0.1


@dataclass(frozen=True)
class Kind:
    """One way in which runs vary.

    noise      sets × runs in running order, spread 1
    spread     of one run, as a share of the value, unless another is given
    raw        the noise applies to the value, not to its logarithm
    one_sided  a tenth of B's runs are off by ten spreads
    """

    name: str
    noise: Noise
    spread: float = 0.02
    raw: bool = False
    one_sided: bool = False

    def draw(
        self, rng: np.random.Generator, sets: int, n: int, design: Design, spread: float | None = None
    ) -> tuple[Floats, Floats]:
        """Logarithms of A and B, sets × n each, without any difference between the systems."""
        size = self.spread if spread is None else spread
        noise = size * self.noise(rng, sets, 2 * n)
        a, b = arranged(rng, np.log1p(noise) if self.raw else noise, design)
        if self.one_sided:
            b = b + size * OFF * (rng.random((sets, n)) < SHARE_OFF)
        return a, b


def arranged(rng: np.random.Generator, runs: Floats, design: Design) -> tuple[Floats, Floats]:
    """Which runs of a sequence are A's: the first half, or a random one of each two."""
    n = runs.shape[1] // 2
    if design == "back to back":
        return runs[:, :n], runs[:, n:]
    a_first = rng.random((len(runs), n)) < 0.5
    first, second = runs[:, 0::2], runs[:, 1::2]
    return np.where(a_first, first, second), np.where(a_first, second, first)


def independent(rng: np.random.Generator, sets: int, count: int) -> Floats:
    """Standard normal."""
    return rng.normal(size=(sets, count))


def heavy_tailed(rng: np.random.Generator, sets: int, count: int) -> Floats:
    """Student's t with 3 degrees of freedom, spread 1."""
    runs: Floats = rng.standard_t(3, size=(sets, count)) / np.sqrt(3.0)
    return runs


def contaminated(rng: np.random.Generator, sets: int, count: int) -> Floats:
    """A tenth of the runs are off by ten spreads, on whichever side."""
    return independent(rng, sets, count) + OFF * (rng.random((sets, count)) < SHARE_OFF)


def drifting(rng: np.random.Generator, sets: int, count: int) -> Floats:
    """From one spread below the middle to one above it, over the whole session."""
    return independent(rng, sets, count) + np.linspace(-1, 1, count)


def autocorrelated(correlation: float) -> Noise:
    """Each run resembles the one before."""

    def noise(rng: np.random.Generator, sets: int, count: int) -> Floats:
        runs = independent(rng, sets, count)
        for at in range(1, count):
            runs[:, at] = correlation * runs[:, at - 1] + np.sqrt(1 - correlation**2) * runs[:, at]
        return runs

    return noise


NORMAL = Kind("normal", independent, raw=True)
LOGNORMAL = Kind("lognormal(0.3)", independent, spread=0.3)
T3 = Kind("t3", heavy_tailed)
CONTAMINATED = Kind("contaminated", contaminated)
ONE_SIDED = Kind("one side contaminated", independent, one_sided=True)
DRIFTING = Kind("drift of ±1 spread", drifting)
AUTOCORRELATED = Kind("autocorrelated 0.5", autocorrelated(0.5))
MUCH_AUTOCORRELATED = Kind("autocorrelated 0.9", autocorrelated(0.9))

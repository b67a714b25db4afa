"""How often `assay watch` names a rank of a healthy job, and how soon a slow one.

`python benchmarks/slow_ranks.py` takes a few minutes; the seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from options import parse, sized
from scipy.signal import lfilter
from slow_nodes import SEED

from assay.monitor.stragglers import EVERY, WINDOWS, look

Floats = NDArray[np.float64]

CHUNK = 4_000_000
SLOW = (1.1, 1.2)


@dataclass(frozen=True)
class Noise:
    """A rank's steps: normal, or Student's t with `tail` degrees of freedom; AR(`memory`)."""

    spread: float
    memory: float = 0.0
    tail: float = 0.0

    def drawn(self, random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Logarithms of seconds, `[..., step]`."""
        own = random.standard_t(self.tail, shape) if self.tail else random.standard_normal(shape)
        own[..., 1:] *= math.sqrt(1 - self.memory**2)
        steps: Floats = self.spread * lfilter([1], [1, -self.memory], own)
        return steps


NOISES = (
    *(Noise(0.05, memory) for memory in (0.0, 0.9, 0.98, 0.99, 0.995)),
    Noise(0.1, tail=3.0),
    Noise(0.1, 0.9, tail=3.0),
)


def first_named(logs: Floats) -> Floats:
    """Steps after which a rank of each job `logs[job, rank, step]` is first named; infinite if never."""
    first = np.full(len(logs), np.inf)
    for end in range(EVERY, logs.shape[-1] + 1, EVERY):
        windows = look(logs[..., max(0, end - WINDOWS[-1]) : end])
        named = [(window.means > window.limits()).any(axis=-1) for window in windows]
        first = np.where(np.any(named, axis=0), np.minimum(first, end), first)
    return first


def jobs(noise: Noise, ranks: int, steps: int, count: int, slow: float = 1.0) -> Floats:
    """`first_named` of this many jobs, of which rank 0 is slow."""

    def drawn() -> Iterator[Floats]:
        random = np.random.default_rng([SEED, ranks])
        at_once = max(min(CHUNK // (ranks * steps), count), 1)
        for at in range(0, count, at_once):
            logs = noise.drawn(random, (min(at_once, count - at), ranks, steps))
            logs[:, 0] += math.log(slow)
            yield first_named(logs)

    return np.concatenate([*drawn()])


def main() -> None:
    """Print the rates of docs/explanation/statistics.md."""
    options = parse(
        sized(
            __doc__,
            healthy=(200, 1, "healthy jobs of each noise"),
            steps=(1_024, 64, "steps of healthy jobs"),
            slow=(60, 1, "jobs with a slow rank"),
        )
    )
    for noise in NOISES:
        for ranks in (2, 8):
            first = jobs(noise, ranks, options.steps, options.healthy)
            early = (first <= 512).sum()
            print(
                f"{noise}, {ranks} ranks: {np.isfinite(first).sum()} named, {early} by step 512", flush=True
            )
            for ratio in SLOW:
                first = jobs(noise, ranks, min(640, options.steps), options.slow, ratio)
                soonest, median, last = np.quantile(first, [0, 0.5, 1], method="higher")
                found = f"{np.isfinite(first).sum()} found, {soonest:.0f}, {median:.0f}, {last:.0f} steps"
                print(f"    {ratio}: {found}", flush=True)


if __name__ == "__main__":
    main()

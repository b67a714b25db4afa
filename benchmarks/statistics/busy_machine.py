"""A program with two threads compared with one thread, while others use the same two CPUs.

The model is harsh: every ready thread gets an equal share, and threads that wait for each other are as slow
as the slowest, or even slower if each wait misses its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import methods
import numpy as np
from drawn_runs import NORMAL, Floats
from experiment import AT_MOST_5, MARGIN, Experiment, Rate
from methods import Flags

from assay.analyse.comparison.verdict import MOST_LOST

CPUS = 2
TRUTHS = {"two threads are 1.9 times as fast": 1.9, "two threads are as fast as one": 1.0}
LOADS = (0.0, 0.05, 0.15, 1.0, 2.0, 4.0)
UNEVEN = 0.2  # spread of a thread's share


def busy() -> Iterator[Experiment]:
    """Each truth with no competitor, a partly busy one, and up to four that never rest."""
    for truth, speed in TRUTHS.items():
        for load in LOADS:
            group = f"two CPUs, load of others {load:g}; {truth}"
            yield Experiment(group, "wrong direction", _wrong(speed, load, allowed=True), AT_MOST_5)
            if load >= 0.15:
                yield Experiment(group, "the same, by the interval alone", _wrong(speed, load, allowed=False))
            elif speed > 1:
                yield Experiment(group, "right direction", _right(speed, load))


@dataclass(frozen=True)
class Runs:
    """The outcome of one program's runs, sets × runs each; times are shares of a run's time.

    speed   relative to its speed alone
    used    CPUs that it used, and that others used
    waited  time during which some task waited for a CPU
    """

    speed: Floats
    used: Floats
    others: Floats
    waited: Floats

    def lost(self) -> Floats:
        """The loss that a verdict allows for, one value per set: `lost_to_others` for all sets at once."""
        time = np.minimum(np.minimum(self.others, self.waited), (self.used + self.others) / CPUS).mean(-1)
        share = np.minimum(self.others / (self.used + self.others), self.waited).mean(-1)
        return np.where(share >= MARGIN / 2, np.minimum(time, 1.0), 0.0)


def _beside(rng: np.random.Generator, sets: int, n: int, threads: int, load: float) -> Runs:
    """Runs of a program with `load` competitors; below 1, with one that is busy for that share."""
    rigid = rng.random((sets, 1))  # 0: the other thread works on meanwhile; 1: it waits, and misses its turn
    if load < 1:
        stalls = load * (threads + 1 > CPUS)
        used = np.full((sets, n), min(threads, CPUS - load * (threads + 1 > CPUS)))
        return Runs(1 - stalls * rigid * np.ones((sets, n)), used, used * 0 + load, used * 0 + 2 * stalls)
    fair = min(1.0, CPUS / (threads + load))
    uneven = np.exp(UNEVEN * rng.normal(size=(sets, n, threads))) if fair < 1 else np.ones((sets, n, threads))
    shares = np.minimum(1.0, fair * uneven)
    used = shares.sum(-1)
    slowest = shares.min(-1) ** (1 + 2 * rigid * (threads > 1))
    waited = np.full((sets, n), float(threads + load > CPUS))
    return Runs(slowest, used, np.minimum(load, CPUS - used), waited)


def _verdicts(
    rng: np.random.Generator, sets: int, n: int, speed: float, load: float, *, allowed: bool
) -> tuple[Flags, Flags]:
    """Whether one thread is called faster than two, and whether slower."""
    two, one = (_beside(rng, sets, n, threads, load) for threads in (2, 1))
    noise_two, noise_one = NORMAL.draw(rng, sets, n, "interleaved")
    ratios = methods.paired(np.log(speed * two.speed) + noise_two, np.log(one.speed) + noise_one)
    lost_two, lost_one = (runs.lost() * allowed for runs in (two, one))
    decided = np.maximum(lost_two, lost_one) <= MOST_LOST
    below, above = (np.log1p(-np.minimum(lost, MOST_LOST)) for lost in (lost_two, lost_one))
    faster = ratios.shifted(below).tail(0.0) < 0.025
    slower = 1 - ratios.shifted(-above).tail(0.0) < 0.025
    return faster & decided, slower & decided


def _wrong(speed: float, load: float, *, allowed: bool) -> Rate:
    """The called direction is not the true one."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        faster, slower = _verdicts(rng, sets, n, speed, load, allowed=allowed)
        return float((faster | slower if speed == 1 else faster).mean())

    return rate


def _right(speed: float, load: float) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        _, slower = _verdicts(rng, sets, n, speed, load, allowed=True)
        return float(slower.mean())

    return rate

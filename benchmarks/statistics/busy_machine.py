"""Programs compared while others use the same two CPUs: two threads with one thread, and with two others.

The model is harsh: every ready thread gets an equal share, and threads that wait for each other are as slow
as the slowest, or even slower if each wait misses its turn. While they wait they spin, or give up their CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import methods
import numpy as np
from drawn_runs import NORMAL, Floats
from experiment import AT_LEAST_80, AT_MOST_5, MARGIN, Experiment
from methods import Flags

from assay.analyse.comparison.verdict import MOST_LOST
from assay.analyse.points.encounters import FEWEST_BLOCKS

CPUS = 2
TRUTHS = {"two threads are 1.9 times as fast": 1.9, "two threads are as fast as one": 1.0}
LOADS = (0.0, 0.05, 0.15, 1.0, 2.0, 4.0)
UNEVEN = 0.2  # spread of a thread's share
EVEN = 0.05  # the same in runs of several seconds
COUNTED = 0.05  # tasks that nobody thinks of, in a typical run


@dataclass(frozen=True)
class Program:
    """What it wants, and what its threads do while they wait for each other.

    rigid  whether each wait also misses its turn: to a degree that a set of runs draws; 0: they never wait
    spins  while they wait, or else give up their CPU
    """

    threads: int
    rigid: bool = True
    spins: bool = True


def busy() -> Iterator[Experiment]:
    """Unequal demand for each truth, with up to four competitors that never rest; then equal demand."""
    for truth, speed in TRUTHS.items():
        for load in LOADS:
            group = f"two CPUs, load of others {load:g}; {truth}"
            sides = Sides(Program(2), Program(1), speed, load)
            yield Experiment(group, "wrong direction", sides.wrong, AT_MOST_5)
            if load >= 0.15:
                yield Experiment(group, "the same, by the interval alone", sides.wrong_by_interval)
            elif speed > 1:
                yield Experiment(group, "right direction", sides.right)
    loose, spins, sleeps = Program(2, rigid=False), Program(2), Program(2, spins=False)
    for load in (0.5, 1.0, 2.0, 4.0):
        for drift in (0.0, 1.0):
            grows = " that doubles" if drift else ""
            group = f"two CPUs, load of others {load:g}{grows}; two threads on both sides"
            for name, a, b in (
                ("waiting threads spin", spins, spins),
                ("waiting threads sleep", sleeps, sleeps),
                ("threads of one side wait, and sleep", sleeps, loose),
            ):
                alike = Sides(a, b, 1.0, load, drift, EVEN, one_program=a == b)
                yield Experiment(group, f"wrong direction, {name}", alike.wrong, AT_MOST_5)
            if not drift:
                unseen = Sides(spins, spins, 1.0, load, drift, EVEN)
                yield Experiment(group, "the same, threads of one side spin more", unseen.wrong)
            better = Sides(loose, loose, 1.2, load, drift, EVEN)
            target = AT_LEAST_80 if load <= 1 else None
            yield Experiment(group, "a difference of 20 % found", better.right, target)


@dataclass(frozen=True)
class Runs:
    """The outcome of one program's runs, sets × runs each; times are shares of a run's time.

    speed     relative to its speed alone
    used      CPUs that it used, and that others used
    waited    time during which some task waited for a CPU
    runnable  tasks that ran or waited, of all programs
    """

    speed: Floats
    used: Floats
    others: Floats
    waited: Floats
    runnable: Floats

    def lost(self) -> Floats:
        """What a side may have lost, one value per set: `lost_to_others` for all sets at once."""
        busy = self.used + self.others
        waited = np.minimum(np.minimum(self.waited, self.runnable - busy), busy / CPUS).clip(0.0)
        time = np.minimum(self.others, waited).mean(-1)
        share = np.minimum(self.others / busy, waited).mean(-1)
        return np.where(share >= MARGIN / 2, np.minimum(time, 1.0), 0.0)


def lost_by_sides(a: Runs, b: Runs) -> tuple[Floats, Floats]:
    """What a verdict allows for: `comparison.verdict.lost_by_sides` for all sets at once."""
    gets = np.log(a.used / b.used)
    wants = (a.runnable - b.runnable) / np.minimum(a.used, b.used)
    by_a, by_b = _above(-gets) + _above(wants), _above(gets) + _above(-wants)
    seen = gets.shape[-1] >= FEWEST_BLOCKS
    beyond_a, beyond_b = (-np.expm1(-by) if seen else np.ones_like(by) for by in (by_a, by_b))
    return np.minimum(a.lost(), beyond_a), np.minimum(b.lost(), beyond_b)


def _above(values: Floats) -> Floats:
    above: Floats = values.mean(-1) + values.std(-1, ddof=1) / np.sqrt(values.shape[-1])
    return np.maximum(0.0, above)


def beside(
    rng: np.random.Generator, program: Program, load: Floats, rigid: Floats, uneven: float = UNEVEN
) -> Runs:
    """A program's runs with `load` competitors, sets × runs; below 1, with one that is busy for that share.

    rigid  per set, 0: the other threads work on meanwhile; 1: they wait, and miss their turn
    """
    threads, waits = program.threads, program.rigid and program.threads > 1
    fair = np.minimum(1.0, CPUS / (threads + load))[..., None]
    spread = np.exp(uneven * rng.normal(size=(*load.shape, threads)))
    shares = np.minimum(1.0, fair * np.where(fair < 1, spread, 1.0))
    stalls = load * (threads + 1 > CPUS)  # of a competitor that rests in between
    used = np.where(load < 1, np.minimum(threads, CPUS - stalls), shares.sum(-1))
    speed, runnable = used / threads, threads + load
    if waits:
        speed = np.where(load < 1, 1 - stalls * (1 + rigid) / 2, shares.min(-1) ** (1 + 2 * rigid))
    if not program.spins:
        at_work = np.where(load < 1, threads, (speed[..., None] / shares).sum(-1))
        used, runnable = np.minimum(used, threads * speed), at_work + load
    waited = np.where(load < 1, 2 * stalls, threads + load > CPUS)
    counted = runnable + COUNTED * np.abs(rng.normal(size=load.shape))
    return Runs(speed, used, np.minimum(load, CPUS - used), waited, counted)


@dataclass(frozen=True)
class Sides:
    """A and B in shuffled blocks.

    speed        of A, if B's is 1, on an idle machine
    drift        by which the load grows from the first run to the last, as a share of the first
    one_program  threads of both sides wait for each other to the same degree
    """

    a: Program
    b: Program
    speed: float
    load: float
    drift: float = 0.0
    uneven: float = UNEVEN
    one_program: bool = False

    def wrong(self, rng: np.random.Generator, sets: int, n: int) -> float:
        """How often the called direction is not the true one."""
        faster, slower = self._verdicts(rng, sets, n, allowed=True)
        return float((faster | slower if self.speed == 1 else faster).mean())

    def wrong_by_interval(self, rng: np.random.Generator, sets: int, n: int) -> float:
        """The same if nothing is allowed for."""
        faster, slower = self._verdicts(rng, sets, n, allowed=False)
        return float((faster | slower if self.speed == 1 else faster).mean())

    def right(self, rng: np.random.Generator, sets: int, n: int) -> float:
        """How often B is called slower."""
        _, slower = self._verdicts(rng, sets, n, allowed=True)
        return float(slower.mean())

    def _verdicts(self, rng: np.random.Generator, sets: int, n: int, *, allowed: bool) -> tuple[Flags, Flags]:
        """Whether B is called faster than A, and whether slower."""
        load = self.load * (1 + self.drift * np.linspace(0.0, 1.0, n)) * np.ones((sets, 1))
        rigid_a, rigid_b = rng.random((2, sets, 1))
        a = beside(rng, self.a, load, rigid_a, self.uneven)
        b = beside(rng, self.b, load, rigid_a if self.one_program else rigid_b, self.uneven)
        noise_a, noise_b = NORMAL.draw(rng, sets, n, "interleaved")
        ratios = methods.paired(np.log(self.speed * a.speed) + noise_a, np.log(b.speed) + noise_b)
        lost_a, lost_b = (lost * allowed for lost in lost_by_sides(a, b))
        decided = np.maximum(lost_a, lost_b) <= MOST_LOST
        below, above = (np.log1p(-np.minimum(lost, MOST_LOST)) for lost in (lost_a, lost_b))
        faster = ratios.shifted(below).tail(0.0) < 0.025
        slower = 1 - ratios.shifted(-above).tail(0.0) < 0.025
        return faster & decided, slower & decided

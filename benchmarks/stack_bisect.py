"""How often `assay stack bisect` names the planted change, and how many stacks it builds for it.

    python benchmarks/stack_bisect.py
    python benchmarks/stack_bisect.py --smallest

Two stacks differ in N changes. One of them, drawn at random, makes the stack slower. Each block has a shift
of its own (2 %), and each run has noise. Plain bisection, as people script it, compares the middle stack with
both ends in the same blocks, takes the nearer of the two, and never comes back. It runs with 3 blocks a
stack, and with as many as the search used. `pair` plants two changes that are slow only together, `sum` two
that each take half. `heavy` makes one run of twenty 5 to 30 % slower. Where builds differ, each has a lasting
shift of its own. An effect of 0 plants nothing: right is then to name nothing. Of the builds of a slowdown,
up to eight confirm and check the change that was found; more if builds differ.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from options import parse

from assay.stacks.bisect_search import BlocksOutcome, Build, ChangeSet, Measure, Search, Settings


@dataclass(frozen=True)
class Case:
    """What is planted: a number of changes, an effect and noise on the log scale, and a kind.

    builds  standard deviation between builds of one stack, on the log scale
    """

    size: int
    effect: float
    noise: float
    kind: str = "one"
    builds: float = 0.0

    def __str__(self) -> str:
        planted = f"{self.size} changes, effect {self.effect:.0%}, noise {self.noise:.1%}, {self.kind}"
        return f"{planted}, builds differ by {self.builds:.1%}" if self.builds else planted


CASES = (
    Case(8, 0.10, 0.01),
    Case(32, 0.10, 0.01),
    Case(32, 0.05, 0.02),
    Case(100, 0.05, 0.01),
    Case(32, 0.05, 0.05),
    Case(32, 0.10, 0.02, "heavy"),
    *(
        Case(16, effect, 0.01, builds=builds)
        for builds in (0.003, 0.015, 0.03)
        for effect in (0, 0.05, 0.1, 0.3)
    ),
    Case(16, 0.10, 0.01, "pair"),
    Case(16, 0.12, 0.01, "sum"),
    Case(32, 1.0, 0.0, "crash"),
    Case(32, 0.5, 0.0, "crash"),
)


class World:
    """A planted difference, measured block by block."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.random = case, random.Random(f"{case} {seed}")
        count = 0 if case.effect == 0 else 2 if case.kind in ("pair", "sum") else 1
        self.planted = frozenset(self.random.sample(range(case.size), count))
        self.shifts: dict[Build, float] = {}
        self.built: set[Build] = set()
        self.runs = 0

    def log_speed(self, stack: ChangeSet) -> float:
        """Without noise."""
        share = len(self.planted & stack) / max(len(self.planted), 1)
        share = float(share == 1) if self.case.kind == "pair" else share
        return share * math.log1p(-self.case.effect) if self.case.kind != "crash" else share

    def value(self, build: Build, shift: float) -> float | str:
        """Of one run."""
        self.runs += 1
        self.built.add(build)
        stack = build.stack
        if self.case.kind == "crash":
            failed = self.log_speed(stack) == 1 and self.random.random() < self.case.effect
            return "crashes" if failed else 0.0
        noise = self.random.gauss(0, self.case.noise)
        if self.case.kind == "heavy" and self.random.random() < 0.05:
            noise -= self.random.uniform(0.05, 0.3)
        if self.case.builds:
            noise += self.shifts.setdefault(build, self.random.gauss(0, self.case.builds))
        return self.log_speed(stack) + shift + noise

    def answer(self, request: Measure) -> BlocksOutcome:
        """The blocks that were requested."""
        shifts = [self.random.gauss(0, 0.02) for _ in range(request.blocks)]
        return BlocksOutcome(
            tuple({one: self.value(one, shift) for one in request.builds} for shift in shifts)
        )


def searched(world: World) -> Search:
    """A whole search, answered by a planted difference."""
    search = Search(tuple(range(world.case.size)), Settings(max_repeats=50))
    run = search.run()
    try:
        request = next(run)
        while True:
            request = run.send(world.answer(request))
    except StopIteration:
        return search


def plain(world: World, blocks: int) -> int:
    """The change that bisection without doubt names."""
    every = frozenset(range(world.case.size))
    low, high = 0, world.case.size
    while high - low > 1:
        middle = (low + high) // 2
        request = Measure((Build(frozenset()), Build(every), Build(frozenset(range(middle)))), blocks)
        found = world.answer(request).blocks
        if world.case.kind == "crash":
            bad = any(block[request.builds[2]] == "crashes" for block in found)
        else:
            means = [sum(float(block[one]) for block in found) / blocks for one in request.builds]
            bad = means[2] < (means[0] + means[1]) / 2
        low, high = (low, middle) if bad else (middle, high)
    return low


def right(search: Search, planted: ChangeSet) -> bool:
    """Whether it named all that is planted and nothing else."""
    culprits = search.culprits if search.ended == "found" else []
    return frozenset(change for one in culprits for change in one.changes) == planted


def wilson(count: int, of: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, share = 1.96, count / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - half, middle + half


def _share(of: int, count: int) -> str:
    low, high = wilson(count, of)
    return f"{100 * count / of:5.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _mean(values: list[int]) -> str:
    mean = sum(values) / len(values)
    variance = sum((one - mean) ** 2 for one in values) / max(len(values) - 1, 1)
    return f"{mean:.1f} ± {1.96 * math.sqrt(variance / len(values)):.1f}"


def measured(case: Case, number: int) -> None:
    """Print what both make of the same planted differences."""
    worlds = [World(case, seed) for seed in range(number)]
    found = [searched(world) for world in worlds]
    named = [(one, world) for one, world in zip(found, worlds, strict=True) if one.ended == "found"]
    good = sum(right(one, world.planted) for one, world in zip(found, worlds, strict=True))
    wrong: Callable[[Search, World], int] = lambda one, world: sum(  # noqa: E731
        not frozenset(culprit.changes) & world.planted for culprit in one.culprits
    )
    print(f"{case}, {number} cases")
    print(
        f"  bisect   right {_share(number, good)}, names a wrong change in"
        f" {sum(bool(wrong(*one)) for one in named)}, undecided {number - len(named)};"
        f" builds {_mean([len(world.built) - 2 for world in worlds])},"
        f" runs {_mean([world.runs for world in worlds])}"
    )
    blocks = max(1, round(sum(world.runs for world in worlds) / number / 3 / math.ceil(math.log2(case.size))))
    for each in (3, blocks):
        again = [World(case, seed) for seed in range(number)]
        hits = sum(frozenset({plain(world, each)}) == world.planted for world in again)
        print(
            f"  plain    right {_share(number, hits)} with {each} blocks a stack;"
            f" builds {_mean([len(world.built) - 2 for world in again])},"
            f" runs {_mean([world.runs for world in again])}"
        )


def main() -> None:
    """Print a paragraph for each kind of case."""
    options = parse(argparse.ArgumentParser(description=__doc__))
    for case in CASES[:1] if options.smallest else CASES:
        measured(case, 5 if options.smallest else 200)


if __name__ == "__main__":
    main()

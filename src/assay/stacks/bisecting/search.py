"""The search for the changes that made a stack worse. Pure: it yields what to measure, and gets the outcome.

A stack is the set of the changes that it has: none for the good one, all for the bad one. The search bisects
the line from the good stack to the bad one. Then it measures the good stack with only the change that it
found. If that is not as bad as the bad one, another change is needed for it, or adds to it: the search goes
on from there.

A change is named as one that makes the stack slower only if the two stacks next to it on the line, built
again several times, confirm it: each build is faster or slower by itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from assay.analyse.statistics import intervals
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.analyse.statistics.sequential import looks, nominal_p
from assay.records import DEFAULT_MARGIN
from assay.stacks.bisecting import posterior
from assay.stacks.bisecting.posterior import LOOKS, Confirmation, Posterior, SpeedEffect, judged_confirmation

Stack = frozenset[int]
Value = float | str
"""The logarithm of a build's speed in a block, or how it failed."""
Kind = Literal["slower", "fails"]
Ended = Literal[
    "found", "equal", "no difference", "better", "good fails", "too few figures", "undecided", "time is up"
]

_MOST_STEPS: Final = 60  # of one line: the noise is too large for an answer by then
_MOST_CULPRITS: Final = 4
_SHARE: Final = 0.2  # of the whole effect: what is left over by less is not searched for; and of the error


@dataclass(frozen=True)
class Build:
    """A stack's environment: its first one, or, if its number is not 0, one that was made again elsewhere."""

    stack: Stack
    number: int = 0


@dataclass(frozen=True)
class Measure:
    """A request: run this many shuffled blocks, each with all of these builds."""

    builds: tuple[Build, ...]
    blocks: int


@dataclass(frozen=True)
class BlocksOutcome:
    """The answer to a request.

    blocks       values by build, for each block
    unbuildable  stacks that can't be built; then there are no blocks
    """

    blocks: tuple[Mapping[Build, Value], ...] = ()
    unbuildable: tuple[Stack, ...] = ()


@dataclass(frozen=True)
class Culprit:
    """Changes that made it worse: more than one only if no stack that can be built separates them.

    probability  that they did, given the measurements
    confirmed    what new builds of the stacks next to them say; None if there are none, as for failures
    stack        the good one with them, what they require, and the culprits found before
    effect       of its first build relative to the good one's; None if it could not be built, or for failures
    fails        whether that stack fails; None if it could not be built, or for slowdowns
    explains     whether it is as bad as the bad one; None if that is open
    """

    changes: tuple[int, ...]
    probability: float
    stack: Stack
    confirmed: Confirmation | None = None
    effect: SpeedEffect | None = None
    fails: bool | None = None
    explains: bool | None = None


@dataclass(frozen=True)
class Settings:
    """What a search must keep to.

    error     probability with which a named change may be wrong
    margin    share that counts as equal
    requires  change → changes without which it can't be built
    alone     whether stacks off the line exist: not so for versions and dates
    """

    error: float = 0.05
    margin: float = DEFAULT_MARGIN
    max_repeats: int = 20
    requires: Mapping[int, Stack] = field(default_factory=dict)
    alone: bool = True


@dataclass
class Search:
    """The state of a search: what was measured, and what it means so far.

    order     the changes, as the line applies them
    doubtful  what would have been named if new builds had confirmed it
    """

    order: tuple[int, ...]
    settings: Settings
    blocks: list[Mapping[Build, Value]] = field(default_factory=list)
    unbuildable: set[Stack] = field(default_factory=set)
    culprits: list[Culprit] = field(default_factory=list)
    doubtful: Culprit | None = None
    numbers: Counter[Stack] = field(default_factory=Counter)
    probabilities: dict[int, float] = field(default_factory=dict)
    kind: Kind | None = None
    ended: Ended = "time is up"
    whole: SpeedEffect | None = None
    reverted: SpeedEffect | bool | None = None

    @property
    def good(self) -> Stack:
        """Without any change."""
        return frozenset()

    @property
    def bad(self) -> Stack:
        """With all changes."""
        return frozenset(self.order)

    def run(self) -> Generator[Measure, BlocksOutcome, None]:
        """The whole search; its results are this object's fields, at any time."""
        yield from self._ends()
        if self.kind is None:
            return
        base = self.good
        while len(self.culprits) < _MOST_CULPRITS:
            culprit = yield from self._bisected(base)
            if culprit is None:
                self.ended = "found" if self.culprits else "undecided"
                return
            self.culprits.append(culprit)
            if not self.settings.alone:
                break
            culprit = yield from self._checked(culprit)
            self.culprits[-1] = culprit
            if culprit.explains is not False:
                break
            base = culprit.stack
        self.ended = "found"
        yield from self._without_needless()
        yield from self._revert()

    def _ends(self) -> Generator[Measure, BlocksOutcome, None]:
        """Blocks of the good and the bad stack until they differ."""
        done, ends = 0, (self.good, self.bad)
        for look in looks(self.settings.max_repeats):
            yield from self._measured(ends, look - done)
            done = look
            (good_failed, good_ran), (bad_failed, bad_ran) = map(self._count, ends)
            counts = (good_failed, good_ran - good_failed), (bad_failed, bad_ran - bad_failed)
            if posterior.fails_more(*counts) >= 1 - self.settings.error:
                self.kind, self.ended = "fails", "time is up"
                return
            if posterior.fails_more(*reversed(counts)) >= 1 - self.settings.error:
                self.ended = "good fails"
                return
            self.whole = self._effect(*ends)
            if self.whole is None:
                self.ended = "too few figures"
            elif good_failed != bad_failed:
                self.ended = "no difference"  # perhaps a failure that comes and goes: look on
            elif self.whole.high < -self._margin:
                self.kind, self.ended = "slower", "time is up"
                return
            elif self.whole.low > self._margin:
                self.ended = "better"
                return
            elif abs(self.whole.low) < self._margin and abs(self.whole.high) < self._margin:
                self.ended = "equal"
                return
            else:
                self.ended = "no difference"

    @property
    def _margin(self) -> float:
        return math.log1p(self.settings.margin)

    def _bisected(self, base: Stack) -> Generator[Measure, BlocksOutcome, Culprit | None]:
        """The change between a base and the bad stack that is responsible; None if none can be named."""
        rest = tuple(change for change in self.order if change not in base)
        line = [base | frozenset(rest[:cut]) for cut in range(len(rest) + 1)]
        last, ends = len(rest), (line[0], line[-1])
        for _ in range(_MOST_STEPS):
            closed = [cut for cut in range(1, last) if line[cut] in self.unbuildable]
            now = self._posterior(line)
            responsible = now.responsible
            self.probabilities = dict(zip(rest, responsible, strict=True))
            together = posterior.groups(last, closed)
            best = max(together, key=lambda group: sum(responsible[index] for index in group))
            probability = min(sum(responsible[index] for index in best), 1.0)
            if probability >= 1 - self.settings.error or len(together) == 1:
                changes = tuple(rest[index] for index in best)
                culprit = Culprit(changes, probability, self._closure(base | frozenset(changes)))
                if self.kind == "fails":
                    return culprit
                culprit = yield from self._built_again(culprit, line[best[0]], line[best[-1] + 1])
                if culprit.confirmed is not None and culprit.confirmed.slower:
                    return culprit
                self.doubtful = culprit
                return None
            open_cuts = [cut for cut in range(1, last) if cut not in closed]
            cut = posterior.next_cut(now.first, open_cuts, self._blocks_of(line), reuse=self.kind == "fails")
            yield from self._measure((*map(Build, ends), self._build(line[cut])), self._blocks_needed())
        return None

    def _build(self, stack: Stack) -> Build:
        """Of a stack on the line, what to measure next: what is known of a speed is of one build only."""
        known = any(Build(stack) in block for block in self.blocks)
        return self._new_build(stack) if known and self.kind == "slower" else Build(stack)

    def _new_build(self, stack: Stack) -> Build:
        self.numbers[stack] += 1
        return Build(stack, self.numbers[stack])

    def _blocks_of(self, line: Sequence[Stack]) -> Counter[int]:
        """Cut → its blocks."""
        place = {stack: cut for cut, stack in enumerate(line)}
        return Counter(
            cut
            for block in self.blocks
            for cut in {place[build.stack] for build in block if build.stack in place}
        )

    def _posterior(self, line: Sequence[Stack]) -> Posterior:
        place = {stack: cut for cut, stack in enumerate(line)}
        size = len(line) - 1
        known = [
            {(place[b.stack], b.number): value for b, value in block.items() if b.stack in place}
            for block in self.blocks
        ]
        if self.kind == "fails":
            return posterior.of_failure(
                size,
                [{cut: isinstance(value, str) for (cut, _), value in block.items()} for block in known],
            )
        speeds = [{node: v for node, v in block.items() if not isinstance(v, str)} for block in known]
        if not any({0, size} <= {cut for cut, _ in block} for block in speeds):
            return Posterior((1 / size,) * size, (1 / size,) * size)
        return posterior.of_slowdown(size, speeds, self._margin)

    def _blocks_needed(self) -> int:
        """Blocks that tell a stack like the good end from one like the bad end in 98 % of cases."""
        if self.kind == "fails":
            failed, ran = self._count(self.bad)
            return min(max(math.ceil(math.log(0.05) / math.log1p(-(failed + 0.5) / (ran + 1))), 1), 8)
        differences = [b - a for a, b in self._pairs(Build(self.good), Build(self.bad))]
        mean = math.fsum(differences) / len(differences)
        variance = math.fsum((difference - mean) ** 2 for difference in differences) / max(
            len(differences) - 1, 1
        )
        return min(max(math.ceil(12 * variance / mean**2), 2), 12)

    def _closure(self, stack: Stack) -> Stack:
        """The stack with everything that its changes require."""
        closure = stack
        while True:
            more = closure.union(*(self.settings.requires.get(change, frozenset()) for change in closure))
            if more == closure:
                return closure
            closure = more

    def _built_again(
        self, culprit: Culprit, without: Stack, having: Stack
    ) -> Generator[Measure, BlocksOutcome, Culprit]:
        """The culprit with what new builds without and with it say, of which the search knew none."""
        sides: tuple[list[Build], list[Build]] = ([], [])
        for look in LOOKS:
            for stack, builds in zip((without, having), sides, strict=True):
                builds += [self._new_build(stack) for _ in range(look - len(builds))]
            new = [build for builds in sides for build in builds if not self._levels([build])]
            yield from self._measure((Build(self.good), *new), self._blocks_needed())
            levels = self._levels(sides[0]), self._levels(sides[1])
            if min(map(len, levels)) < 2:
                return culprit
            confirmed = judged_confirmation(*levels, self.settings.error)
            culprit = replace(culprit, confirmed=confirmed)
            if confirmed.slower or confirmed.equal(self._margin):
                break
        return culprit

    def _levels(self, builds: Sequence[Build]) -> list[float]:
        """Each build's speed relative to the good stack's first build, in its blocks; those that have one."""
        pairs = [self._pairs(Build(self.good), build) for build in builds]
        return [
            math.fsum(b - a for a, b in block_pairs) / len(block_pairs)
            for block_pairs in pairs
            if block_pairs
        ]

    def _checked(self, culprit: Culprit) -> Generator[Measure, BlocksOutcome, Culprit]:
        """The culprit with what was measured of the good stack with it."""
        if culprit.stack == self.bad:
            fails = True if self.kind == "fails" else None
            return replace(culprit, effect=self.whole, fails=fails, explains=True)
        done = 0
        for look in looks(min(self.settings.max_repeats, 12)):
            yield from self._measured((self.good, self.bad, culprit.stack), look - done)
            done = look
            if culprit.stack in self.unbuildable:
                return culprit
            if self.kind == "fails":
                failed, ran = self._count(culprit.stack)
                if failed or self._would_have_failed(ran):
                    return replace(culprit, fails=bool(failed), explains=bool(failed))
                continue
            culprit = replace(culprit, effect=self._effect(self.good, culprit.stack))
            rest, least = self._effect(culprit.stack, self.bad), self._least
            if rest is not None and rest.low > -least and culprit.effect and culprit.effect.high < 0:
                return replace(culprit, explains=True)
            if rest is not None and rest.high < -self._margin:
                return replace(culprit, explains=rest.log > -least)
        return culprit

    def _without_needless(self) -> Generator[Measure, BlocksOutcome, None]:
        """Drop culprits without which the others are as bad: one named in error needs another by its side."""
        for culprit in self.culprits[:-1]:
            others = [other for other in self.culprits if other is not culprit]
            stack = self._closure(frozenset(change for other in others for change in other.changes))
            last = replace(others[-1], stack=stack, effect=None, fails=None, explains=None)
            last = yield from self._checked(last)
            if last.explains:
                self.culprits = [*others[:-1], last]

    @property
    def _least(self) -> float:
        """What is left over by less than this is not searched for."""
        return max(self._margin, _SHARE * abs(self.whole.log)) if self.whole else self._margin

    def _would_have_failed(self, ran: int) -> bool:
        """Whether a stack that fails as often as the bad one would surely have failed in so many runs."""
        failed, runs = self._count(self.bad)
        return bool((1 - (failed + 0.5) / (runs + 1)) ** ran < self.settings.error * _SHARE)

    def _revert(self) -> Generator[Measure, BlocksOutcome, None]:
        """Whether the bad stack without the culprits is as good as the good one: what a user would do."""
        without = self.bad - {change for culprit in self.culprits for change in culprit.changes}
        while dropped := {c for c in without if not self.settings.requires.get(c, frozenset()) <= without}:
            without -= dropped
        if not self.settings.alone or without == self.good:
            return
        yield from self._measured((self.good, self.bad, without), max(self._blocks_needed(), 3))
        failed, ran = self._count(without)
        if ran:
            self.reverted = bool(failed) if self.kind == "fails" else self._effect(self.good, without)

    def _measured(self, stacks: tuple[Stack, ...], blocks: int) -> Generator[Measure, BlocksOutcome, None]:
        """Blocks of the first builds of these stacks."""
        yield from self._measure(tuple(map(Build, stacks)), blocks)

    def _measure(self, builds: Sequence[Build], blocks: int) -> Generator[Measure, BlocksOutcome, None]:
        outcome = yield Measure(tuple(dict.fromkeys(builds)), blocks)
        self.blocks += outcome.blocks
        self.unbuildable.update(outcome.unbuildable)
        if self.kind == "slower":  # one that never gives a figure says nothing about speed
            for build in builds:
                failed, ran = self._count(build.stack)
                if ran and failed == ran:
                    self.unbuildable.add(build.stack)

    def _count(self, stack: Stack) -> tuple[int, int]:
        """Its failures and its runs."""
        values = [value for block in self.blocks for build, value in block.items() if build.stack == stack]
        return sum(isinstance(value, str) for value in values), len(values)

    def _pairs(self, a: Build, b: Build) -> list[tuple[float, float]]:
        both = ((block[a], block[b]) for block in self.blocks if a in block and b in block)
        return [(x, y) for x, y in both if not isinstance(x, str) and not isinstance(y, str)]

    def _effect(self, a: Stack, b: Stack) -> SpeedEffect | None:
        """The speed of B's first build relative to A's, with an interval that holds at all looks.

        None for fewer than two blocks.
        """
        pairs = self._pairs(Build(a), Build(b))
        if len(pairs) < 2:
            return None
        steps = hidden_by_rounding(*([math.exp(log) for log in side] for side in zip(*pairs, strict=True)))
        interval = intervals.paired(pairs, 1 - nominal_p(self.settings.max_repeats, paired=True), steps)
        half = steps.shift if interval.half is None else interval.half  # identical values of either build
        return SpeedEffect(interval.centre, interval.centre - half, interval.centre + half)

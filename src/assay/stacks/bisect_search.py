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
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import t_quantile
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.analyse.statistics.sequential import looks, nominal_p
from assay.records import DEFAULT_MARGIN

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


ChangeSet = frozenset[int]
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

    stack: ChangeSet
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
    unbuildable: tuple[ChangeSet, ...] = ()


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
    stack: ChangeSet
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
    requires: Mapping[int, ChangeSet] = field(default_factory=dict)
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
    unbuildable: set[ChangeSet] = field(default_factory=set)
    culprits: list[Culprit] = field(default_factory=list)
    doubtful: Culprit | None = None
    numbers: Counter[ChangeSet] = field(default_factory=Counter)
    probabilities: dict[int, float] = field(default_factory=dict)
    kind: Kind | None = None
    ended: Ended = "time is up"
    whole: SpeedEffect | None = None
    reverted: SpeedEffect | bool | None = None

    @property
    def good(self) -> ChangeSet:
        """Without any change."""
        return frozenset()

    @property
    def bad(self) -> ChangeSet:
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
            if fails_more(*counts) >= 1 - self.settings.error:
                self.kind, self.ended = "fails", "time is up"
                return
            if fails_more(*reversed(counts)) >= 1 - self.settings.error:
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

    def _bisected(self, base: ChangeSet) -> Generator[Measure, BlocksOutcome, Culprit | None]:
        """The change between a base and the bad stack that is responsible; None if none can be named."""
        rest = tuple(change for change in self.order if change not in base)
        line = [base | frozenset(rest[:cut]) for cut in range(len(rest) + 1)]
        last, ends = len(rest), (line[0], line[-1])
        for _ in range(_MOST_STEPS):
            closed = [cut for cut in range(1, last) if line[cut] in self.unbuildable]
            now = self._posterior(line)
            responsible = now.responsible
            self.probabilities = dict(zip(rest, responsible, strict=True))
            together = groups(last, closed)
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
            cut = next_cut(now.first, open_cuts, self._blocks_of(line), reuse=self.kind == "fails")
            yield from self._measure((*map(Build, ends), self._build(line[cut])), self._blocks_needed())
        return None

    def _build(self, stack: ChangeSet) -> Build:
        """Of a stack on the line, what to measure next: what is known of a speed is of one build only."""
        known = any(Build(stack) in block for block in self.blocks)
        return self._new_build(stack) if known and self.kind == "slower" else Build(stack)

    def _new_build(self, stack: ChangeSet) -> Build:
        self.numbers[stack] += 1
        return Build(stack, self.numbers[stack])

    def _blocks_of(self, line: Sequence[ChangeSet]) -> Counter[int]:
        """Cut → its blocks."""
        place = {stack: cut for cut, stack in enumerate(line)}
        return Counter(
            cut
            for block in self.blocks
            for cut in {place[build.stack] for build in block if build.stack in place}
        )

    def _posterior(self, line: Sequence[ChangeSet]) -> Posterior:
        place = {stack: cut for cut, stack in enumerate(line)}
        size = len(line) - 1
        known = [
            {(place[b.stack], b.number): value for b, value in block.items() if b.stack in place}
            for block in self.blocks
        ]
        if self.kind == "fails":
            return of_failure(
                size,
                [{cut: isinstance(value, str) for (cut, _), value in block.items()} for block in known],
            )
        speeds = [{node: v for node, v in block.items() if not isinstance(v, str)} for block in known]
        if not any({0, size} <= {cut for cut, _ in block} for block in speeds):
            return Posterior((1 / size,) * size, (1 / size,) * size)
        return of_slowdown(size, speeds, self._margin)

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

    def _closure(self, stack: ChangeSet) -> ChangeSet:
        """The stack with everything that its changes require."""
        closure = stack
        while True:
            more = closure.union(*(self.settings.requires.get(change, frozenset()) for change in closure))
            if more == closure:
                return closure
            closure = more

    def _built_again(
        self, culprit: Culprit, without: ChangeSet, having: ChangeSet
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

    def _measured(
        self, stacks: tuple[ChangeSet, ...], blocks: int
    ) -> Generator[Measure, BlocksOutcome, None]:
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

    def _count(self, stack: ChangeSet) -> tuple[int, int]:
        """Its failures and its runs."""
        values = [value for block in self.blocks for build, value in block.items() if build.stack == stack]
        return sum(isinstance(value, str) for value in values), len(values)

    def _pairs(self, a: Build, b: Build) -> list[tuple[float, float]]:
        both = ((block[a], block[b]) for block in self.blocks if a in block and b in block)
        return [(x, y) for x, y in both if not isinstance(x, str) and not isinstance(y, str)]

    def _effect(self, a: ChangeSet, b: ChangeSet) -> SpeedEffect | None:
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

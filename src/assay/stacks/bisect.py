"""Which change between two stacks made it slower or made it fail: bisected under noise, resumable."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.analyse.points.groups import Metrics, group
from assay.errors import InputError
from assay.questions.evidence import reindex, runs_directory
from assay.records import Result, Run
from assay.run.stopping import terminable
from assay.stacks.bisect_lines import (
    BisectLimits,
    BisectRequest,
    digest_of_request,
    first_line,
    packages_line,
    system_of,
    work_of,
)
from assay.stacks.bisect_search import Value
from assay.stacks.measuring import block_mean, by_block, ranking_metrics
from assay.stacks.stack import Stack as Stack
from assay.stacks.stack import failure_of, stack_of

if TYPE_CHECKING:
    from os import PathLike

    from assay.records import Comparison
    from assay.run.progress import Tell
    from assay.stacks.bisect_lines import StackLine
    from assay.stacks.bisect_search import (
        BlocksOutcome,
        Build,
        ChangeSet,
        Confirmation,
        Culprit,
        Measure,
        Search,
        SpeedEffect,
    )
    from assay.stacks.environments import Workshop
    from assay.stacks.measuring import MeasuredWork, Measuring
    from assay.stacks.stack import Change
    from assay.stacks.storage import Journal


@dataclass(frozen=True)
class BisectPlan:
    """What will be bisected, before anything is measured.

    names     of the changes, in the order in which they are applied
    fixed     differences that can't be made here, such as the kernel's version
    at_least  stacks to build if every answer is clear
    """

    name: str
    what: str
    names: tuple[str, ...]
    fixed: tuple[Change, ...]
    at_least: int
    folder: Path

    def document(self) -> dict[str, Any]:
        """What would be bisected."""
        return {
            "schema": "assay.stack-bisection-plan/1",
            "name": self.name,
            "what": self.what,
            "changes": list(self.names),
            "fixed": [str(change) for change in self.fixed],
            "at_least": self.at_least,
            "folder": str(self.folder),
        }


@dataclass(frozen=True)
class BisectedLine:
    """What the search of one row of stacks has come to.

    search       its state: culprits, probabilities, effects on the log scale, how it ended
    ends         the bad stack compared with the good one; None if there is no figure of both
    builds       stacks that were built, besides the ends
    unbuildable  stacks that could not be, with the reason
    then         why it is not followed by a finer search, as text; "" if it is, or need not be
    """

    what: str
    names: tuple[str, ...]
    search: Search
    ends: Comparison | None
    builds: int
    unbuildable: tuple[tuple[str, str], ...]
    then: str = ""

    @property
    def too_busy(self) -> bool:
        """Whether the ends may have lost too much of their time to others for a verdict on speed."""
        from assay.analyse.comparison.verdict import too_much

        by_speed = self.search.kind != "fails"
        return by_speed and self.ends is not None and too_much(self.ends.lost_to_others)


@dataclass(frozen=True)
class BisectionResult:
    """The result of `bisect_stacks`: its lines, the coarsest first."""

    plan: BisectPlan
    lines: tuple[BisectedLine, ...]
    spent_s: float
    error: float
    sessions: tuple[str, ...]

    @property
    def ended(self) -> str:
        """How the first search ended."""
        return self.lines[0].search.ended

    @property
    def decided(self) -> bool:
        """Whether a change is named that may be relied on."""
        return self.ended == "found" and not self.lines[0].too_busy

    def document(self) -> dict[str, Any]:
        """The answer: every line that was bisected, the coarsest first."""
        return {
            "schema": "assay.stack-bisection/1",
            "name": self.plan.name,
            "ended": self.ended,
            "decided": self.decided,
            "error": self.error,
            "changes": list(self.plan.names),
            "fixed": [str(change) for change in self.plan.fixed],
            "spent_s": self.spent_s,
            "sessions": list(self.sessions),
            "lines": [_line_as_data(line) for line in self.lines],
        }


def bisect_stacks(
    request: BisectRequest,
    limits: BisectLimits | None = None,
    *,
    keep: bool = False,
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    say: Callable[[str], None] = lambda _: None,
    planned: Callable[[BisectPlan], bool] = lambda _: True,
    command_line: Sequence[str] = (),
) -> BisectionResult | None:
    """The changes that made the bad stack worse than the good one, like `assay stack bisect GOOD BAD`.

    keep     leave the environments in place
    say      receives a line about each step
    planned  receives the plan before anything is built; nothing is if it returns False, and None is returned

    The same call resumes a stopped bisection, and a larger budget continues one that ended.

    Raises InputError for what can't be bisected as requested (with uv's reason), BusyError if another Assay
    process works on it, HostError if this machine can't continue, InterruptedRun after Ctrl-C.
    """
    from assay.durable import locked, make_directory
    from assay.run.progress import Silence
    from assay.stacks.environments import Workshop
    from assay.stacks.storage import Journal, bisections_dir
    from assay.suite.model import NAME_PATTERN

    limits = limits or BisectLimits()
    runs_dir = runs_directory(runs).resolve()
    system = system_of(request)
    digest = digest_of_request(request, limits, system)
    name = request.name or f"bisect-{digest[:8]}"
    if not re.fullmatch(NAME_PATTERN, name):
        raise InputError(f"--name: {name!r} must match {NAME_PATTERN}")
    work = work_of(request.measure, name, limits.margin)
    folder = bisections_dir(runs_dir) / name
    make_directory(folder)
    with locked(folder / "lock", f"the bisection {name}"):
        journal = Journal.open(folder / "journal.jsonl")
        _begin(journal, digest, name, folder)
        run = _Bisection(
            request,
            limits,
            runs_dir,
            work,
            system,
            journal,
            Workshop(folder, 600.0),
            keep,
            progress or Silence,
            say,
            command_line,
        )
        try:
            return run.run(planned)
        finally:
            reindex(runs_dir)


def _begin(journal: Journal, digest: str, name: str, folder: Path) -> None:
    begun = next(journal.entries("begun"), None)
    if begun is None:
        journal.add("begun", digest=digest, at=time.time())
    elif begun["digest"] != digest:
        raise InputError(
            f"{name} was begun with other stacks or settings: give another --name, or remove {folder}"
        )


@dataclass
class _Bisection:
    """One call's work: all that it knows is in the journal, the locks and the run directories."""

    request: BisectRequest
    limits: BisectLimits
    runs_dir: Path
    work: MeasuredWork
    system: Mapping[str, Any]
    journal: Journal
    workshop: Workshop
    keep: bool
    progress: Tell
    say: Callable[[str], None]
    command_line: Sequence[str]
    benches: list[StackBench] = field(default_factory=list)

    def run(self, planned: Callable[[BisectPlan], bool]) -> BisectionResult | None:
        line, fixed = first_line(self.request, self.runs_dir, self.workshop, self.journal, self.say)
        plan = BisectPlan(
            self.work.name,
            line.what,
            line.names,
            fixed,
            max(len(line.names) - 1, 0).bit_length() + 2 * line.alone,
            self.workshop.root,
        )
        if not planned(plan):
            return None
        lines = [self._bisected(1, line)]
        while (finer := self._finer(line, lines[-1])) is not None:
            if isinstance(finer, str):
                from dataclasses import replace

                lines[-1] = replace(lines[-1], then=finer)
                break
            line = finer
            lines.append(self._bisected(len(lines) + 1, line))
        sessions = tuple(name for bench in self.benches for name in bench.measuring.sessions)
        return BisectionResult(plan, tuple(lines), self._spent_s, self.limits.error, sessions)

    def _finer(self, line: StackLine, bisected: BisectedLine) -> StackLine | str | None:
        """The line within what was found; why there is none, as text; or None if that needs no words."""
        from assay.stacks.bisect_lines import ChangesLine, RowLine, versions_line

        culprits = bisected.search.culprits
        if bisected.search.ended != "found" or self._over:
            return None
        if isinstance(line, RowLine):
            if line.what != "dates":
                return None
            cuts = culprits[0].changes[0], culprits[0].changes[-1] + 1
            return packages_line(self.request, line, cuts, self.workshop, self.say)
        if not isinstance(line, ChangesLine) or len(culprits) != 1 or len(culprits[0].changes) != 1:
            return "the versions between are searched only if one change is responsible by itself"
        (change,) = culprits[0].changes
        return versions_line(line.difference, change, culprits[0].stack, self.workshop)

    @property
    def _spent_s(self) -> float:
        return sum(bench.spent_s for bench in self.benches)

    @property
    def _over(self) -> bool:
        late = self.limits.max_time_s is not None and self._spent_s >= self.limits.max_time_s
        return late or sum(len(bench.names) for bench in self.benches) >= self.limits.max_stacks

    def _bisected(self, number: int, line: StackLine) -> BisectedLine:
        from assay.stacks.bisect_search import Search, Settings
        from assay.stacks.measuring import Measuring

        settings = Settings(
            self.limits.error, self.limits.margin, self.limits.max_repeats, line.requires, line.alone
        )
        search = Search(tuple(range(len(line.names))), settings)
        measuring = Measuring(
            self.work, self.runs_dir, self.progress, self.command_line, self.limits.max_repeats
        )
        measuring.check(self.system)
        bench = StackBench(
            self.workshop, self.journal, number, line, self.system, search, measuring, self.say
        )
        self.benches.append(bench)
        for request in _driven(search, bench.answer):
            if self._over:
                break
            self.say(bench.about(request))
        if not self.keep:
            bench.clear()
        comparison = None
        if measuring.results:
            comparison, _ = measuring.compared(BAD, GOOD, self.limits.max_repeats)
        return BisectedLine(
            line.what,
            line.names,
            search,
            comparison,
            len(bench.names) - len({GOOD, BAD} & set(bench.names.values())),
            tuple((bench.title(stack), why) for stack, why in bench.unbuildable.items()),
        )


def _driven(search: Search, answer: Callable[[Measure], BlocksOutcome]) -> Iterator[Measure]:
    """Each request of a search before it is answered; who stops iterating stops the search."""
    run = search.run()
    try:
        request = next(run)
        while True:
            yield request
            request = run.send(answer(request))
    except StopIteration:
        return


def _line_as_data(line: BisectedLine) -> dict[str, Any]:
    from assay.records import to_plain

    search = line.search
    reverted = search.reverted
    return {
        "what": line.what,
        "changes": list(line.names),
        "ended": search.ended,
        "kind": search.kind,
        "too_busy": line.too_busy,
        "culprits": [_culprit_as_data(line, culprit) for culprit in search.culprits],
        "not_confirmed": None if search.doubtful is None else _culprit_as_data(line, search.doubtful),
        "probabilities": {line.names[index]: p for index, p in search.probabilities.items()},
        "bad_relative_to_good": _effect_as_data(search.whole),
        "bad_without_culprits": {"fails": reverted}
        if isinstance(reverted, bool)
        else _effect_as_data(reverted),
        "comparison": None if line.ends is None else to_plain(line.ends),
        "builds": line.builds,
        "unbuildable": [{"stack": name, "why": why} for name, why in line.unbuildable],
        "then": line.then,
    }


def _culprit_as_data(line: BisectedLine, culprit: Culprit) -> dict[str, Any]:
    return {
        "changes": [line.names[index] for index in culprit.changes],
        "probability": culprit.probability,
        "built_again": _confirmation_as_data(culprit.confirmed),
        "good_with_it": {"fails": culprit.fails}
        if culprit.fails is not None
        else _effect_as_data(culprit.effect),
        "explains": culprit.explains,
    }


def _confirmation_as_data(confirmation: Confirmation | None) -> dict[str, Any] | None:
    if confirmation is None:
        return None
    return {
        "effect": _effect_as_data(confirmation.effect),
        "builds_of_each": confirmation.builds,
        "spread_of_builds": math.expm1(confirmation.spread),
        "confirmed": confirmation.slower,
    }


def _effect_as_data(effect: SpeedEffect | None) -> dict[str, float] | None:
    if effect is None:
        return None
    return {
        name: math.exp(getattr(effect, attribute))
        for name, attribute in (("ratio", "log"), ("low", "low"), ("high", "high"))
    }


GOOD, BAD = "good", "bad"


@dataclass
class StackBench:
    """Builds and measures the stacks of one line.

    number   of the line in its bisection
    system   where all run, as systems.yaml has it
    spent_s  time that builds and trials took
    names    of the builds, as their systems in sessions
    failing  stacks that can't import their packages, and how they fail
    """

    workshop: Workshop
    journal: Journal
    number: int
    line: StackLine
    system: Mapping[str, Any]
    search: Search
    measuring: Measuring
    say: Callable[[str], None]
    spent_s: float = 0.0
    names: dict[Build, str] = field(default_factory=dict)
    failing: dict[ChangeSet, str] = field(default_factory=dict)
    unbuildable: dict[ChangeSet, str] = field(default_factory=dict)
    step: int = 0

    def title(self, stack: ChangeSet) -> str:
        """What a stack is, in a few words."""
        if stack in (self.search.good, self.search.bad):
            return GOOD if stack == self.search.good else BAD
        if not self.line.alone:
            return self.line.names[len(stack) - 1].rpartition(" → ")[2]
        left = self.search.bad - stack
        if len(stack) == 1 or len(left) == 1:
            start, (change,) = (f"{GOOD} with", stack) if len(stack) == 1 else (f"{BAD} without", left)
            return f"{start} {self.line.names[change]}"
        return f"{GOOD} with {len(stack)} of {len(self.line.names)} changes"

    def about(self, request: Measure) -> str:
        """The next step, and how many may be left."""
        chances = [p for p in self.search.probabilities.values() if p > 0] or [
            1 / len(self.line.names)
        ] * len(self.line.names)
        whole = math.fsum(chances)
        bits = -math.fsum(p / whole * math.log2(p / whole) for p in chances)
        stacks = dict.fromkeys(build.stack for build in request.builds if build.number == 0)
        again = Counter(build.stack for build in request.builds if build.number)
        titles = [self.title(stack) for stack in stacks]
        titles += [f"{self.title(stack)} (built again {count} x)" for stack, count in again.items()]
        what = " and ".join(titles)
        left = math.ceil(bits) + 1
        return f"{self.line.what}, step {self.step + 1}, about {left} left: {request.blocks} blocks of {what}"

    def answer(self, request: Measure) -> BlocksOutcome:
        """What the request asks for, measured; or which of its stacks can't be built."""
        from assay.stacks.bisect_search import BlocksOutcome

        self.step += 1
        done = any(
            entry["line"] == self.number and entry["step"] == self.step
            for entry in self.journal.entries("measured")
        )
        systems = {}
        for build in request.builds:
            place = self._ensure_built(build, new=not done)
            if place is None:
                return BlocksOutcome(unbuildable=(build.stack,))
            if build.stack not in self.failing:
                env = {**self.system.get("env", {}), **self.line.variables(build.stack)}
                systems[self.names[build]] = {**self.system, "python": place, "env": env}
        before = len(self.measuring.results)
        self.spent_s += self.measuring.run(systems, request.blocks, (self.number, self.step))
        if not done:
            self.journal.add("measured", line=self.number, step=self.step)
        return BlocksOutcome(tuple(self._blocks(request, self.measuring.results[before:])))

    def _blocks(self, request: Measure, results: Sequence[Any]) -> Iterator[dict[Build, Any]]:
        from assay import read
        from assay.analyse.comparison.sides import led_by

        stated = self.measuring.stated
        values = block_values(results, led_by(stated, read.metrics), stated, self.measuring.last_line)
        for block in values or [{} for _ in range(request.blocks)]:
            outcomes: dict[Build, Any] = {
                build: block[self.names[build]] for build in request.builds if self.names.get(build) in block
            }
            failing = (build for build in request.builds if build.stack in self.failing)
            yield outcomes | {build: self.failing[build.stack] for build in failing}

    @terminable()
    def _ensure_built(self, build: Build, *, new: bool) -> str | None:
        """The interpreter of a build, which is made if need be; None if it can't be."""
        from assay.stacks.environments import BuildFailure

        stack = build.stack
        if stack in self.unbuildable:
            return None
        recipe = self.line.recipe(stack)
        began = time.monotonic()
        place = self.workshop.locked(recipe)
        failure = place if isinstance(place, BuildFailure) else None
        if not isinstance(place, BuildFailure):
            place = place.again(build.number)
            if new and stack not in self.failing:
                failure = self.workshop.build(recipe, place)
        key = {"line": self.number, "stack": sorted(stack), "build": build.number}
        kept = next((entry for entry in self.journal.entries("made") if key.items() <= entry.items()), None)
        if kept is None:
            self.journal.add(
                "made",
                **key,
                seconds=time.monotonic() - began,
                failure=None if failure is None else failure.kind,
                why="" if failure is None else failure.why,
            )
            kept = self.journal.lines[-1]
        if build not in self.names:
            self.spent_s += kept["seconds"]
            self.names[build] = self._name(build)
        return self._failed(build, kept) if kept["failure"] else str(getattr(place, "python", ""))

    def _failed(self, build: Build, kept: Mapping[str, Any]) -> str | None:
        """Note a failed build: failing to import is an outcome, failing to install is none."""
        stack = build.stack
        if kept["failure"] == "does not install":
            if stack in (self.search.good, self.search.bad):
                raise InputError(
                    f"{kept['why']}\n{self.title(stack)}: the stack can't be installed: see above"
                )
            self.unbuildable[stack] = kept["why"]
            self.names.pop(build, None)
            self.say(f"{self.title(stack)}: can't be installed: {kept['why'][:200]}")
            return None
        if stack == self.search.good:
            raise InputError(f"{kept['why']}\n{GOOD}: the good stack {kept['failure']}: see above")
        self.failing[stack] = kept["failure"]
        return ""

    def _name(self, build: Build) -> str:
        if build.number == 0 and build.stack in (self.search.good, self.search.bad):
            return self.title(build.stack)
        return f"m{len(self.names) + len(self.unbuildable) + 1:02d}"

    def clear(self) -> None:
        """Remove the environments; their locks are kept."""
        from assay.stacks.environments import Environment

        for build in self.names:
            place = self.workshop.locked(self.line.recipe(build.stack))
            if isinstance(place, Environment):
                self.workshop.remove(place.again(build.number))


def block_values(
    results: Sequence[Result], metrics: Metrics, stated: Mapping[str, str], last_line: Callable[[Run], str]
) -> list[dict[str, Value]]:
    """System → value, for each block in order: the logarithm of its speed, higher is better, or its failure.

    stated     benchmark → its primary metric, where the suite states one
    last_line  of a failed run

    A run that failed for a reason that may not be the software has no value. A system whose first run could
    not import its packages failed in every block: the others were not started.
    """
    primary = ranking_metrics(results, metrics, stated)
    blocks = sorted({result.run.trial.block for result in results})
    outcomes: dict[int, dict[str, Value]] = {block: {} for block in blocks}
    for system in dict.fromkeys(result.run.trial.system for result in results):
        own = [result for result in results if result.run.trial.system == system]
        groups = list(group(own, metrics, among=results).values())
        leading = [
            point_group
            for point_group in groups
            if primary.get(point_group.point.benchmark) == point_group.point.metric
        ]
        sign = -1.0 if any(point_group.point.better == "lower" for point_group in leading) else 1.0
        figures = by_block(groups, primary)
        points = max((len(values) for values in figures.values()), default=0)
        for (_, block), values in figures.items():
            if len(values) == points:
                outcomes[block][system] = sign * math.log(block_mean(values))
        failures = {
            result.run.trial.block: _failure(result, last_line) for result in own if not result.counts
        }
        for block, failure in failures.items():
            if failure is not None:
                outcomes[block][system] = failure
        if "does not import" in failures.values():
            for block in blocks:
                outcomes[block].setdefault(system, "does not import")
    return [outcomes[block] for block in blocks]


def _failure(result: Result, last_line: Callable[[Run], str]) -> str | None:
    stack = stack_of(result.provenance) or Stack({}, {})
    return failure_of(result.run, stack, last_line(result.run)) if result.run.state.final else None

"""Stacks of a line built and measured, as a search asks for them, and what their blocks gave."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay import read
from assay.analyse.comparison.sides import led_by
from assay.analyse.points.groups import Metrics, group
from assay.errors import InputError
from assay.records import Result, Run
from assay.run.stopping import terminable
from assay.stacks.bisect_lines import StackLine
from assay.stacks.bisect_search import BlocksOutcome, Build, ChangeSet, Measure, Search, Value
from assay.stacks.environments import BuildFailure, Environment, Workshop
from assay.stacks.measuring import Measuring, block_mean, by_block, ranking_metrics
from assay.stacks.stack import Stack, failure_of, stack_of
from assay.stacks.storage import Journal

GOOD: Final = "good"
BAD: Final = "bad"


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

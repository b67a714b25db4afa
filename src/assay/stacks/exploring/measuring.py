"""Trials of stacks as ordinary sessions: one for each rung, with a system for each environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay import launch, plan, read, suite
from assay.analyse.comparison.compare import hold_against
from assay.analyse.comparison.sides import led_by, primary_metrics
from assay.analyse.doubts.design import NOT_INTERLEAVED
from assay.analyse.doubts.sides import DIFFERENT_SOFTWARE
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.statistics.sequential import nominal_p
from assay.errors import InputError, Problem
from assay.records import Comparison, Doubt, Metric, Point, Result, Run, digest_of
from assay.run import drive, last_words
from assay.run.interim_looks import spent_s
from assay.run.progress import Tell
from assay.run.request import RunRequest
from assay.rundir import session as rundir
from assay.rundir.files import StepOf
from assay.rundir.session import Attempt, Session
from assay.stacks.exploring.rungs import CandidateBlocks, comparison
from assay.stacks.predictions import INDICATORS
from assay.suite import Suite, Systems, document
from assay.workloads import PARAMS

Block = tuple[str, int]  # session and number


@dataclass(frozen=True)
class MeasuredWork:
    """What every stack runs.

    name       of the suite that the sessions are of
    content    of a suite, without its name, systems and repeats
    directory  where relative paths start
    where      the place of a key in the file that the user wrote
    """

    name: str
    content: Mapping[str, Any]
    directory: Path
    margin: float
    seed: int
    where: Callable[..., str]


@dataclass
class Measuring:
    """The sessions of an exploration or a bisection so far, and what they say.

    max_repeats  blocks of the last look at a stack
    results      all, of all sessions of this call
    sessions     their names, in order
    stated       benchmark → its primary metric, where the suite states one
    """

    work: MeasuredWork
    runs_dir: Path
    progress: Tell
    command_line: Sequence[str]
    max_repeats: int
    results: list[Result] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    stated: Mapping[str, str] = field(default_factory=dict)
    _attempts: dict[str, Attempt] = field(default_factory=dict)

    def run(self, systems: Mapping[str, Mapping[str, Any]], blocks: int, rung: tuple[int, int]) -> float:
        """Run this many shuffled blocks of these systems, the incumbent first; seconds that its trials took.

        A session that is complete is read instead, and one that was interrupted is resumed. Raises as
        `run_suite` does.
        """
        # without a check that the jobs can run: environments of what is complete may be gone
        what, where = self._parsed(systems, blocks, rung)
        planned = plan.make(what, where)
        session = self._complete(planned.suite, planned.digest)
        if session is None:
            request = RunRequest(
                what,
                self.runs_dir,
                where,
                command_line=self.command_line,
                step_of=StepOf(self.work.name, 1 - nominal_p(self.max_repeats, paired=True)),
            )
            session = drive.run_suite(request, self.progress).session
        last = session.last_attempts()
        results = [read.result(last[trial.id]) for trial in planned.trials if trial.id in last]
        self.results += results
        self._attempts |= {result.run.id: last[result.run.trial.id] for result in results}
        self.sessions.append(session.id)
        self.stated = planned.primary_metric
        return spent_s({result.run.id: [result.run] for result in results})

    def check(self, system: Mapping[str, Any]) -> None:
        """Raise InputError, at the lines of the user's file, if such a system can't run what is measured.

        Also if what is measured can't rank stacks.
        """
        what, _ = self._parsed({"incumbent": system, "candidate": system}, 3, (0, 0))
        if problem := unrankable(what):
            raise InputError([Problem(self.work.where("measure"), problem)])

    def last_line(self, run: Run) -> str:
        """What a failed run's first rank to fail printed last."""
        return last_words.last_line(self._attempts[run.id], run.exits)

    def _parsed(
        self, systems: Mapping[str, Mapping[str, Any]], blocks: int, rung: tuple[int, int]
    ) -> tuple[Suite, Systems]:
        content = {
            "suite": self.work.name,
            **self.work.content,
            "systems": list(systems),
            "baseline": next(iter(systems)),
            "repeats": blocks,
            "margin": self.work.margin,
            "seed": int(digest_of([self.work.seed, *rung])[:12], 16),
        }
        source = document.of_data(content, str(self.work.directory / "suite.json"))
        places = document.of_data(systems, str(self.work.directory / "systems.json"))
        try:
            return suite.parse(
                source,
                places,
                params_models=PARAMS,
                launcher_models=launch.SYSTEM_MODELS,
                metrics=plan.metrics_of(),
            )
        except InputError as error:  # at the lines of the file that the user wrote
            problems = []
            for problem in error.problems:
                key = "options" if problem.where.startswith(places.file) else "measure"
                problems.append(Problem(self.work.where(key), problem.what))
            raise InputError(problems) from error

    def _complete(self, name: str, digest: str) -> Session | None:
        """The session of an equal plan that is complete: its rung is over."""
        for session in reversed(rundir.sessions_of(self.runs_dir, name)):
            header = session.header
            if header.plan_digest == digest and header.finished_at is not None and not session.lost_files:
                return session
        return None

    def compared(self, name: str, incumbent: str, max_repeats: int) -> tuple[Comparison | None, str]:
        """A candidate compared with the incumbent by the blocks that both ran in; or None, and why."""
        own = [result for result in self.results if result.run.trial.system == name]
        together = {_block(result) for result in own}
        theirs = [
            result
            for result in self.results
            if result.run.trial.system == incumbent and _block(result) in together
        ]
        metrics = led_by(self.stated, read.metrics)
        primary = ranking_metrics([*own, *theirs], metrics, self.stated)
        outcome = hold_against(theirs, own, margin=self.work.margin, names=(incumbent, name), metrics=metrics)
        leading = [c for c in outcome.comparisons if primary.get(c.point.benchmark) == c.point.metric]
        directions = {c.point.better for c in leading}
        a, b = (
            by_block(group(results, metrics, among=(*own, *theirs)).values(), primary)
            for results in (theirs, own)
        )
        blocks = [block for block in a if block in b and a[block].keys() == b[block].keys()]
        if not leading or not blocks:
            return None, next(
                (result.run.cause for result in own if result.run.cause), "no block gave a figure of both"
            )
        if len(directions) > 1:
            what = "measure: its benchmarks have metrics with different directions; measure them separately"
            raise InputError([Problem(self.work.where("measure"), what)])
        lost = tuple(max(c.lost_to_others[side] for c in leading) for side in (0, 1))
        values = tuple((block_mean(a[block]), block_mean(b[block])) for block in blocks)
        candidate_comparison = comparison(
            CandidateBlocks(name, values, (lost[0], lost[1])),
            _point(leading),
            incumbent,
            self.work.margin,
            max_repeats,
        )
        return replace(
            candidate_comparison, doubts=tuple(dict.fromkeys(filter(_applies, _doubts(leading))))
        ), ""


def unrankable(what: Suite) -> str:
    """Why its benchmarks can't rank stacks together, as text; "" if nothing is known against it.

    What they report is what their workloads declare: what runs leave out shows only when they ran.
    """
    reported = plan.metrics_of()
    ranking = [
        benchmark for benchmark in what.benchmarks if benchmark.workload != INDICATORS
    ] or what.benchmarks
    leading: dict[str, Metric] = {}
    for benchmark in ranking:
        metrics = {
            metric.name: metric
            for point in benchmark.points
            for metric in reported(benchmark.workload, point.params)
        }
        stated = benchmark.primary or what.primary
        if stated is not None and stated not in metrics:
            return (
                f"primary: {benchmark.name} has no {stated}; it has {', '.join(metrics)}. "
                "Measure it separately"
            )
        leading[benchmark.name] = metrics[stated] if stated is not None else next(iter(metrics.values()))
    if len({metric.better for metric in leading.values()}) < 2:
        return ""
    listed = "; ".join(
        f"{name}: {metric.name}, {metric.better} is better" for name, metric in leading.items()
    )
    return f"its benchmarks' leading metrics have different directions ({listed}); measure them separately"


def _doubts(compared: Sequence[Comparison]) -> Iterator[Doubt]:
    yield from (doubt for c in compared for doubt in c.doubts)


def _applies(doubt: Doubt) -> bool:
    """Not that the sides were not interleaved: each session shuffles them, and only its blocks are compared.

    Nor that their software differs, which is the question.
    """
    return doubt.code not in (NOT_INTERLEAVED.code, DIFFERENT_SOFTWARE.code)


def ranking_metrics(runs: Sequence[Result], metrics: Metrics, stated: Mapping[str, str]) -> dict[str, str]:
    """Benchmark → the metric that ranks stacks, as `primary_metrics` has it.

    Indicators rank only if nothing else is measured: next to a workload, they are there to predict it.
    """
    primary = primary_metrics(runs, metrics, stated)
    indicators = {result.run.trial.benchmark for result in runs if result.run.trial.workload == INDICATORS}
    return {name: metric for name, metric in primary.items() if name not in indicators} or primary


def _block(result: Result) -> Block:
    return result.run.session, result.run.trial.block


def by_block(groups: Iterator[Group] | Any, primary: Mapping[str, str]) -> dict[Block, dict[str, float]]:
    """Block → the value of the leading metric at each point."""
    values: dict[Block, dict[str, float]] = {}
    for point_group in groups:
        if primary.get(point_group.point.benchmark) != point_group.point.metric:
            continue
        point = point_group.point
        key = f"{point.benchmark} {point.shape} {sorted(point.labels.items())}"
        for sample in point_group.samples:
            if sample.value > 0:
                values.setdefault(_block(sample.result), {})[key] = sample.value
    return values


def block_mean(values: Mapping[str, float]) -> float:
    """Geometric mean over the points of a block."""
    return math.exp(math.fsum(map(math.log, values.values())) / len(values))


def _point(leading: Sequence[Comparison]) -> Point:
    """What is compared: the one point, or the geometric mean over several."""
    first = leading[0].point
    return first if len(leading) == 1 else replace(first, labels={"mean over": f"{len(leading)} points"})

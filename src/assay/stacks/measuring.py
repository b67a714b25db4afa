"""Trials of stacks as ordinary sessions, one for each rung, and who goes on to the next.

Each candidate is compared with the incumbent by the log-ratios of the blocks that have both. The looks are
those of a run until decided: after 3, 5, 8, 12 … blocks, with intervals that hold at all of them. So a
candidate may stop at any of them, for whatever reason, and its interval still holds. At the end, all
candidates are one family: one of forty that is best by chance does not pass for better.

The family is Bonferroni's and not Holm's (`families.py`): Holm's interval of a candidate that is better, next
to others that are not shown to be, ends at 1 and can't say that it is better by more than the margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from assay import launch, plan, read, suite
from assay.analyse.comparison.sides import led_by, primary_metrics
from assay.analyse.comparison.verdict import decide, surely_beyond
from assay.analyse.doubts.design import NOT_INTERLEAVED
from assay.analyse.doubts.sides import DIFFERENT_SOFTWARE
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import ratio_end
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.analyse.statistics.sequential import IN_FAMILY, nominal_p
from assay.errors import InputError, Problem
from assay.records import Comparison, Doubt, Family, Metric, Point, Result, Run, digest_of
from assay.run import drive
from assay.run.interim_looks import spent_s
from assay.run.progress import Tell, last_line
from assay.run.request import RunRequest
from assay.rundir import session as rundir
from assay.rundir.files import StepOf
from assay.rundir.session import Attempt, Session
from assay.stacks.effects import judged
from assay.stacks.indicators import INDICATORS
from assay.suite import Suite, Systems, document
from assay.workloads import PARAMS

Block = tuple[str, int]  # session and number
# helps of options that explorations and bisections have
ABOUT_MAX_TIME: Final = "Start nothing once builds and trials took this long together: 2h."
ABOUT_KEEP: Final = "Leave the environments in place."


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
        return last_line(self._attempts[run.id], run.exits)

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
        every = (result for result in self.results if result.run.trial.system == incumbent)
        theirs = [result for result in every if _block(result) in together]
        metrics = led_by(self.stated, read.metrics)
        primary = ranking_metrics([*own, *theirs], metrics, self.stated)
        outcome = compare_with_doubts(
            theirs, own, margin=self.work.margin, names=(incumbent, name), metrics=metrics
        )
        leading = [c for c in outcome.comparisons if primary.get(c.point.benchmark) == c.point.metric]
        directions = {c.point.better for c in leading}
        a, b = (
            by_block(group(results, metrics, among=(*own, *theirs)).values(), primary)
            for results in (theirs, own)
        )
        blocks = [block for block in a if block in b and a[block].keys() == b[block].keys()]
        if not leading or not blocks:
            causes = (result.run.cause for result in own if result.run.cause)
            return None, next(causes, "no block gave a figure of both")
        if len(directions) > 1:
            what = "measure: its benchmarks have metrics with different directions; measure them separately"
            raise InputError([Problem(self.work.where("measure"), what)])
        lost = tuple(max(c.lost_to_others[side] for c in leading) for side in (0, 1))
        values = tuple((block_mean(a[block]), block_mean(b[block])) for block in blocks)
        blocks_of = CandidateBlocks(name, values, (lost[0], lost[1]))
        margin = self.work.margin
        candidate_comparison = comparison(blocks_of, _point(leading), incumbent, margin, max_repeats)
        doubts = dict.fromkeys(doubt for c in leading for doubt in c.doubts if _applies(doubt))
        return replace(candidate_comparison, doubts=tuple(doubts)), ""


def unrankable(what: Suite) -> str:
    """Why its benchmarks can't rank stacks together, as text; "" if nothing is known against it.

    What they report is what their workloads declare: what runs leave out shows only when they ran.
    """
    reported = plan.metrics_of()
    ranking = [b for b in what.benchmarks if b.workload != INDICATORS] or what.benchmarks
    leading: dict[str, Metric] = {}
    for benchmark in ranking:
        metrics = {
            metric.name: metric
            for point in benchmark.points
            for metric in reported(benchmark.workload, point.params)
        }
        stated = benchmark.primary or what.primary
        if stated is not None and stated not in metrics:
            lacks = f"{benchmark.name} has no {stated}; it has {', '.join(metrics)}"
            return f"primary: {lacks}. Measure it separately"
        leading[benchmark.name] = metrics[stated] if stated is not None else next(iter(metrics.values()))
    if len({metric.better for metric in leading.values()}) < 2:
        return ""
    listed = "; ".join(f"{name}: {m.name}, {m.better} is better" for name, m in leading.items())
    return f"its benchmarks' leading metrics have different directions ({listed}); measure them separately"


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


@dataclass(frozen=True)
class CandidateBlocks:
    """The blocks of one candidate: values of the incumbent and its own, and the time lost to others."""

    name: str
    values: tuple[tuple[float, float], ...]
    lost: tuple[float, float] = (0.0, 0.0)


def comparison(
    pairs: CandidateBlocks, point: Point, incumbent: str, margin: float, max_repeats: int
) -> Comparison:
    """A candidate compared with the incumbent by its blocks so far: at least one."""
    logs = [(math.log(a), math.log(b)) for a, b in pairs.values]
    confidence = 1 - nominal_p(max_repeats, paired=True)
    interval = intervals.paired(logs, confidence, hidden_by_rounding(*zip(*pairs.values, strict=True)))
    return judged(
        point,
        (incumbent, pairs.name),
        (_mean([a for a, _ in logs]), _mean([b for _, b in logs])),
        interval,
        margin,
        confidence=confidence,
        lost=pairs.lost,
        n=(len(logs), len(logs)),
        method="paired",
    )


def _mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


def gain(comparison: Comparison) -> float:
    """Logarithm of how much better it is than the incumbent: above 0 whichever direction is better."""
    log = math.log(comparison.ratio.value)
    return -log if comparison.point.better == "lower" else log


def survivors(comparisons: Sequence[Comparison], blocks: int, max_repeats: int) -> tuple[str, ...]:
    """Those that go on after this many blocks: the better half of the undecided, none after the last look.

    A candidate that is slower or equivalent is decided and stops. One that is faster goes on: the family of
    all candidates needs stronger evidence than a look at one.
    """
    if blocks >= max_repeats:
        return ()
    open_ = [comparison for comparison in comparisons if comparison.verdict not in ("slower", "equivalent")]
    kept = sorted(open_, key=gain, reverse=True)[: math.ceil(len(comparisons) / 2)]
    return tuple(comparison.b for comparison in kept)


def verdicts(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """All candidates as one family: the verdicts that may be claimed jointly, wherever each stopped."""
    size = sum(comparison.error is not None for comparison in comparisons.values())
    return {
        name: comparison if size < 2 else _claimed(comparison, size)
        for name, comparison in comparisons.items()
    }


def _claimed(comparison: Comparison, size: int) -> Comparison:
    """With the interval that holds jointly with those of the others; `equivalent` needs no correction."""
    if comparison.error is None or comparison.degrees is None or comparison.ratio.confidence is None:
        return comparison
    confidence = 1 - (1 - comparison.ratio.confidence) * IN_FAMILY / size
    half = intervals.t_quantile((1 + confidence) / 2, comparison.degrees) * comparison.error
    center = math.log(comparison.ratio.value)
    joint = replace(
        comparison.ratio, low=ratio_end(center - half), high=ratio_end(center + half), confidence=confidence
    )
    family = Family(size, "bonferroni", joint, comparison.verdict)
    if comparison.verdict == "equivalent":
        return replace(comparison, family=family)
    better, lost = comparison.point.better, comparison.lost_to_others
    verdict, reason = decide(joint, comparison.margin, better, lost, (comparison.a, comparison.b))
    return replace(
        comparison,
        verdict=verdict,
        reason=f"claimed jointly with {size - 1} others (Bonferroni), {reason}",
        by_margin=surely_beyond(joint, comparison.margin, better, lost),
        family=family,
    )

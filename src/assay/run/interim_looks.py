"""Running until decided: how many blocks there may be, when to look at the results, and what is open then.

The maximum number of blocks fixes the looks before the first block runs, and every interval accounts for all
looks (`analyse/statistics/sequential.py`). So stopping at the first look that decides everything is wrong no
more often than a single look would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay import plan
from assay.analyse.comparison.sides import against, baseline_of, led_by, primary_metrics
from assay.analyse.comparison.verdict import more_runs_may_decide
from assay.analyse.judgement import Judgement, judge
from assay.analyse.points.groups import Metrics
from assay.analyse.statistics.sequential import looks
from assay.errors import InputError, Problem
from assay.records import Comparison, Plan, Result, Run, digest_of
from assay.suite import Suite, Systems
from assay.units import human_seconds
from assay.workloads import WORKLOADS, Workload

MAX_REPEATS = 20


@dataclass(frozen=True)
class Limits:
    """How far to go for a decision.

    max_repeats  maximum number of blocks; a different number is a different test
    max_time_s   no block starts once the session's trials took this long together; None: no limit
    """

    max_repeats: int = MAX_REPEATS
    max_time_s: float | None = None


Ended = Literal["decided", "most blocks", "time is up", "more runs decide nothing"]


@dataclass(frozen=True)
class Look:
    """What a look at the results so far found.

    blocks  number of blocks that ran
    looks   numbers of blocks after which to look; the last one is the maximum
    open    primary comparisons that are undecided, as text
    ended   why no further block runs; None if one does
    """

    blocks: int
    looks: tuple[int, ...]
    open: tuple[str, ...]
    ended: Ended | None

    @property
    def most(self) -> int:
        """Blocks that may be run."""
        return self.looks[-1]

    @property
    def words(self) -> str:
        """One line for people, plus one for each open comparison."""
        after = f"After {self.blocks} of at most {self.most} blocks"
        if not self.open:
            return f"{after}: every primary comparison is decided"
        number = f"{len(self.open)} primary comparison{'s are' if len(self.open) > 1 else ' is'} open"
        also = {
            None: "",
            "decided": "",
            "most blocks": "; a larger --max-repeats is a new test that starts without runs",
            "more runs decide nothing": "; more runs like these would decide nothing",
            "time is up": "; the time is up; a longer --max-time resumes from here",
        }[self.ended]
        return "\n  ".join([f"{after}: {number}{also}", *self.open])


def planned(
    suite: Suite,
    systems: Systems,
    *,
    only: Sequence[str],
    limits: Limits | None,
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> Plan:
    """What a run follows: the suite's own plan if there are no limits, otherwise a plan until decided.

    That plan has the most blocks that may be run, and its looks; the suite's `repeats` does not matter.

    Raises InputError as `plan.make` does, and if the suite has nothing that could be decided this way.
    """
    if limits is None:
        return plan.make(suite, systems, only=only, workloads=workloads)
    if suite.order == "sequential":
        what = "order: sequential runs all of one side first; running until decided needs interleaved blocks"
        raise InputError([Problem(suite.where("order"), what)])
    benchmarks = tuple(replace(b, repeats=limits.max_repeats) for b in suite.benchmarks)
    base_plan = plan.make(replace(suite, benchmarks=benchmarks), systems, only=only, workloads=workloads)
    if len(base_plan.systems) < 2:
        what = f"only {base_plan.systems[0]} is run, so there is no comparison to decide; select two systems"
        raise InputError([Problem(suite.where("systems"), what)])
    schedule = looks(limits.max_repeats)
    return replace(base_plan, looks=schedule, digest=digest_of([base_plan.digest, "looks", schedule]))


def overrun(block: int, spent_s: float, limits: Limits) -> str:
    """That this block, which is about to start, will end after the time limit, as text; "" if it won't.

    spent_s  by the trials of the blocks before it; the first block's duration is unknown
    """
    if limits.max_time_s is None or block == 1:
        return ""
    expected_s = spent_s * block / (block - 1)
    if expected_s <= limits.max_time_s:
        return ""
    return (
        f"Block {block} will be completed after about {human_seconds(expected_s)} of trials, although "
        f"--max-time is {human_seconds(limits.max_time_s)}: a part of a block compares nothing"
    )


def look(planned: Plan, blocks: int, results: Sequence[Result], metrics: Metrics, *, late: bool) -> Look:
    """Look at the results of the first `blocks` blocks; `late`: there is no time for another."""
    open_, missing = undecided(planned, results, metrics)
    ended: Ended | None = None
    if not open_ and not missing:
        ended = "decided"
    elif not missing and not any(map(more_runs_may_decide, open_)):
        ended = "more runs decide nothing"
    elif blocks == planned.looks[-1]:
        ended = "most blocks"
    elif late:
        ended = "time is up"
    return Look(blocks, planned.looks, (*map(_words, open_), *missing), ended)


def undecided(
    planned: Plan, results: Sequence[Result], metrics: Metrics
) -> tuple[list[Comparison], list[str]]:
    """Primary comparisons that these results leave open, and those that are impossible, as text."""
    baseline = baseline_of(planned.systems, planned.baseline)
    sides: dict[str, list[Result]] = {system: [] for system in planned.systems}
    for result in results:
        sides[result.run.trial.system].append(result)
    metrics = led_by(planned.primary_metric, metrics)
    primary = primary_metrics(results, metrics, planned.primary_metric)
    judgement = judge(against(sides, baseline), metrics, margin=planned.margin, primary=primary)
    open_ = [c for c in judgement.primary if c.verdict == "undecided"]
    return open_, [*map(str, judgement.open), *_missing(planned, judgement, baseline)]


def _missing(planned: Plan, judgement: Judgement, baseline: str) -> Iterator[str]:
    """Points of the sweep where a system has no comparison at all because results are missing."""
    compared = {(c.b, c.point.benchmark, c.point.shape) for c in judgement.primary}
    explained = {(pair.b, pair.benchmark) for pair in judgement.open}
    for trial in planned.trials:
        if trial.block == 1 and trial.system != baseline and (trial.system, trial.benchmark) not in explained:
            place = (trial.system, trial.benchmark, str(trial.shape))
            if place not in compared:
                where = f"{trial.benchmark} {trial.shape}, {trial.system} against {baseline}"
                yield f"{where}: results are missing"


def _words(c: Comparison) -> str:
    labels = "".join(f" {name}={value}" for name, value in c.point.labels.items())
    return f"{c.point.benchmark} {c.point.shape}{labels}, {c.b} against {c.a}: {c.reason}"


def spent_s(runs: Mapping[str, Sequence[Run]]) -> float:
    """Time that the trials of a session took together, under however many Assay processes."""
    return sum(
        max(run.ended_at - run.started_at, 0.0)
        for of_trial in runs.values()
        for run in of_trial
        if run.started_at is not None and run.ended_at is not None
    )

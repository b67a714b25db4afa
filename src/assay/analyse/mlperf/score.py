"""The MLPerf score of a set of training runs: the olympic mean, by the rule of the benchmark and round.

Time to train is noisy, so a result is several runs: the fastest and the slowest are dropped and the rest
averaged. A run that did not converge may count as a slowest one. A set that doesn't meet its rule has no
score, and its doubts state why. A broken log is not a run that failed: the official rule counts it as one,
and the resulting score is kept separately.

Source: MLPerf training rules, "Benchmark Results"; v0.5 rules for NCF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from assay.analyse.mlperf.rounds import RoundRules, ScoringRule, rule_for
from assay.analyse.mlperf.rules import RuleCheck
from assay.analyse.mlperf.score_doubts import NO_RULE, NOT_CONVERGED, RUN_COUNT, UNUSABLE_RUN
from assay.records import Doubt, TrainingRun
from assay.units import counted

_BROKEN: Final = ("unfinished", "invalid")


@dataclass(frozen=True)
class SetScore:
    """A set's score, in minutes; None if the rule gives none, in which case a doubt states why.

    minutes    the olympic mean
    official   the same if broken logs are the only obstacle, each counted as a run that failed, as the
               official rule does; None if `minutes` is not, or if the rule allows fewer failures
    scaled     the same times the scaling factor
    mean, std  of the runs that converged: the plain mean and the sample standard deviation
    converged  number of runs that converged
    """

    minutes: float | None
    official: float | None
    scaled: float | None
    mean: float | None
    std: float | None
    runs: int
    converged: int
    rule: ScoringRule | None
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True)
class ScoredSet:
    """A set of runs with its score and all doubts about it.

    rules, checks   the rules it was checked against, and the results; None and empty if not requested
    stated_minutes  the published score; None if unknown
    """

    name: str
    benchmark: str | None
    round: str | None
    system: str | None
    runs: tuple[TrainingRun, ...]
    scaling_factor: float | None
    score: SetScore
    doubts: tuple[Doubt, ...]
    rules: RoundRules | None = None
    checks: tuple[RuleCheck, ...] = ()
    stated_minutes: float | None = None


def score(
    runs: Sequence[TrainingRun], *, benchmark: str | None, round_: str | None, scaling_factor: float | None
) -> SetScore:
    """The score of a set's runs, in the order in which they ran.

    scaling_factor  from the set's scaling.json, 1 without one; None if unknown
    """
    rule = rule_for(benchmark, round_)
    doubts = _obstacles(runs, rule, benchmark)
    converged = [run.minutes for run in runs if run.minutes is not None]
    failed = sum(run.status == "aborted" for run in runs)
    broken = sum(run.status in _BROKEN for run in runs)
    minutes = official = None
    if rule is not None and not doubts:
        minutes = olympic_mean(converged[: rule.counted], 0 if rule.counted else failed, rule.dropped)
        if failed:
            doubts.append(_failures_counted(failed, rule))
    elif rule is not None and len(runs) == rule.runs and failed + broken <= min(rule.failures, rule.dropped):
        official = olympic_mean(converged, failed + broken, rule.dropped)
    scaled = None if minutes is None or scaling_factor is None else minutes * scaling_factor
    return SetScore(
        minutes=minutes,
        official=official,
        scaled=scaled,
        mean=fmean(converged) if converged else None,
        std=stdev(converged) if len(converged) > 1 else None,
        runs=len(runs),
        converged=len(converged),
        rule=rule,
        doubts=tuple(doubts),
    )


def olympic_mean(minutes: Sequence[float], failed: int, dropped: int) -> float:
    """Mean without the `dropped` fastest and slowest, where `failed` further runs are slower than any.

    Raises ValueError if nothing is left, or if more failed than are dropped.

    >>> olympic_mean([10.0, 11.0, 12.0, 99.0], failed=0, dropped=1)
    11.5
    >>> olympic_mean([10.0, 11.0, 12.0], failed=1, dropped=1)
    11.5
    """
    if failed > dropped:
        raise ValueError(f"{failed} failed runs can't be dropped as the {dropped} slowest")
    kept = sorted(minutes)[dropped : len(minutes) - (dropped - failed)]
    if not kept:
        raise ValueError(f"no run is left of {len(minutes)}")
    return fmean(kept)


def _obstacles(runs: Sequence[TrainingRun], rule: ScoringRule | None, benchmark: str | None) -> list[Doubt]:
    """Why the rule gives no score; empty if it gives one."""
    if rule is None:
        return [
            NO_RULE.doubt(
                f"no rule is known for {benchmark!r}" if benchmark else "the logs name no benchmark"
            )
        ]
    doubts = []
    if len(runs) != rule.runs:
        files = f"{len(runs)} result file{'s' if len(runs) != 1 else ''}"
        doubts.append(
            RUN_COUNT.doubt(
                f"{files}, but the rule for {benchmark} requires {rule.runs} runs",
                ("as many runs as the rule asks for", f"{rule.runs} runs"),
            )
        )
    unusable = [run for run in runs if run.status in _BROKEN]
    if unusable:
        evidence = "; ".join(f"{run.file}: {run.problem}" for run in unusable[:5])
        more = f" and {len(unusable) - 5} more" if len(unusable) > 5 else ""
        doubts.append(UNUSABLE_RUN.doubt(evidence + more))
    failed = sum(run.status == "aborted" for run in runs)
    if failed > rule.failures:
        doubts.append(NOT_CONVERGED.doubt(f"{counted(failed, 'run')} did not converge, {rule.failures} may"))
    return doubts


def _failures_counted(failed: int, rule: ScoringRule) -> Doubt:
    return NOT_CONVERGED.doubt(
        f"{failed} of {rule.runs} runs did not converge; the rules count them as the slowest"
    )

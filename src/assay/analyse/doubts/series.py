"""Doubts about what happened within the runs, from the series that they printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.doubts.sequence import MATTERS
from assay.analyse.points.case import Case, Side
from assay.analyse.points.replication import LEVEL
from assay.analyse.statistics.intervals import t_quantile
from assay.inputs import LONGEST_LINE
from assay.records import Result, Series, TrainingRun
from assay.targets import relation_of
from assay.units import percent, significant

FEWEST_WINDOWS = 4
FEWEST_RUNS = 3
FEWEST_VALUES = 3
STUCK_SEEN = 0.8  # share of sets without learning that are reported; a higher one doubts slow learners


def cut_lines(case: Case) -> str | None:
    """Logs with lines that were not read to the end."""
    parts = []
    for side in case.sides:
        cut = [n for s in side.group.samples if (n := s.result.reading.cut_lines)]
        if cut:
            runs = counted(len(cut), "run")
            parts.append(
                f"{side.name}: {counted(sum(cut), 'line')} of {runs}, longer than {LONGEST_LINE} bytes"
            )
    if not parts:
        return None
    return f"{'; '.join(parts)}: only the beginning of each was searched for results"


CUT_LINES = CaseDoubtKind(
    code="cut-lines",
    subject="runs",
    severity="weak",
    means="A log has lines that are longer than 2000 bytes; only the first 2000 bytes of each were read.",
    effect=(
        "A result further along the line was missed. If the last of several results counts, another one "
        "may be shown."
    ),
    remedy=(
        "End the line after each result that counts; a carriage return, as progress bars print it, also ends "
        "a line."
    ),
    evidence=cut_lines,
    looks_at="runs",
)


def warm_up(case: Case) -> str | None:
    """Runs whose first quarter is slower than their second half: they were measured before they settled.

    One-sided t test over the runs of a side on log(first quarter / second half), one value per run.
    """
    for side in case.sides:
        starts, biases = _starts(side)
        if len(starts) < FEWEST_RUNS or not is_slow_start(starts, LEVEL / len(case.sides)):
            continue
        bias = -math.fsum(biases) / len(biases)
        if bias < MATTERS:
            continue
        slow = -math.expm1(math.fsum(starts) / len(starts))
        return (
            f"{side.name}: over {counted(len(starts), 'run')} the first quarter of the windows is "
            f"{percent(slow)} slower than the second half, which shifts the result by {percent(bias)}"
        )
    return None


WARM_UP = CaseDoubtKind(
    code="warm-up",
    subject="runs",
    severity="biased",
    means=(
        "Over the runs of a side, the first quarter of the windows is slower than the second half, and the "
        "start changes the result by at least 0.2 %."
    ),
    effect=(
        "The result mixes the start (compilation, caches, clocks) with the steady speed, and depends on how "
        "long the run was. Two sides that warm up differently can't be distinguished from two with different "
        "speeds."
    ),
    remedy="Raise `warmup`, or measure for longer, until the first windows are as fast as the last.",
    rates="A one-sided t test over runs (each is one value), from three runs on, at 1.25 % for one side.",
    evidence=warm_up,
    looks_at="runs",
)


def is_slow_start(starts: Sequence[float], level: float) -> bool:
    """Whether the runs' log(first quarter / second half) is below 0, by a one-sided t test at this level."""
    n = len(starts)
    mean = math.fsum(starts) / n
    spread = math.sqrt(math.fsum((start - mean) ** 2 for start in starts) / (n - 1))
    return mean + t_quantile(1 - level, n - 1) * spread / math.sqrt(n) < 0


def start(rates: Sequence[float]) -> tuple[float, float]:
    """log(first quarter / second half) of a run's rates, and log(whole / second half): the start's cost."""
    first, settled = rates[: max(1, len(rates) // 4)], rates[len(rates) // 2 :]
    level = math.fsum(settled) / len(settled)
    begin, whole = math.fsum(first) / len(first), math.fsum(rates) / len(rates)
    return math.log(begin / level), math.log(whole / level)


def _starts(side: Side) -> tuple[list[float], list[float]]:
    starts = [
        start(series.y)
        for sample in side.group.samples
        if (series := _rate(sample.result)) is not None
        and len(series.y) >= FEWEST_WINDOWS
        and min(series.y) > 0
    ]
    return [begin for begin, _ in starts], [bias for _, bias in starts]


def _rate(result: Result) -> Series | None:
    """The run's throughput over time."""
    return next((s for s in result.reading.series if s.name == "throughput" and s.unit.endswith("/s")), None)


def learns_nothing(case: Case) -> str | None:
    """A loss that does not fall, or an accuracy that does not rise, in the runs of a side.

    One-sided t test over the runs of a side on the gain from first to last quarter, one value per run.
    Runs that reached their target have learned and are left out, and so are those that state `data` as
    synthetic, where there is nothing to learn.
    """
    for side in case.sides:
        results = [
            sample.result
            for sample in side.group.samples
            if sample.result.reading.facts.get("data") != "synthetic"
            and not _reached_target(sample.result.reading.training)
        ]
        for name in ("loss", "accuracy"):
            curves = [curve for result in results for curve in _curves(result, name)]
            if curves and (evidence := _no_gain(name, curves)):
                return f"{side.name}: {evidence}"
    return None


LEARNS_NOTHING = CaseDoubtKind(
    code="learns-nothing",
    subject="machines",
    severity="invalid",
    means=(
        "A loss or an accuracy stays at one value, or over three runs or more its last quarter is better "
        "than its first by no more than it fluctuates: a one-sided t test over runs (each is one value). "
        "The round's target determines the direction of MLPerf's `eval_accuracy`; a run that reached it has "
        "learnt."
    ),
    effect=(
        "A program that trains nothing may skip work (no gradients, no data, a diverged model), so "
        "its speed is that of something else."
    ),
    remedy=(
        "Check learning rate, data and precision before you use the speed: a program that trains nothing may "
        "skip work."
    ),
    rates=(
        "Four of five sets of three runs or more that learn nothing raise it, at any number of runs; a "
        "stricter test would doubt slow learners. Of runs of eight windows whose loss falls by one spread "
        "of a window, 23, 10 and 1 % raise it with 3, 5 and 10 runs; from two spreads on, hardly any do."
    ),
    evidence=learns_nothing,
    looks_at="runs",
)


def _reached_target(training: TrainingRun | None) -> bool:
    return training is not None and training.target_reached is True


@dataclass(frozen=True)
class _Course:
    """A run's values; `sign` is 1 if they should rise, -1 if they should fall, 0 if unknown."""

    values: tuple[float, ...]
    sign: int


def _curves(result: Result, name: str) -> Iterator[_Course]:
    """The run's values with this name, if there are enough to show a trend.

    `eval_accuracy` in MLPerf's logs is a loss in some benchmarks: the round's rules define its direction.
    """
    courses = [series.y for series in result.reading.series if series.name == name]
    training = result.reading.training
    evaluated: tuple[float, ...] = ()
    if name == "accuracy" and training is not None:
        evaluated = tuple(value for _, value in training.evaluations)
        courses = courses or [evaluated]
    for values in courses:
        sign = -1 if name == "loss" else 1
        if training is not None and values == evaluated:
            sign = _SIGNS.get(relation_of(training.benchmark, training.round), 0)
        if len(values) >= FEWEST_VALUES:
            yield _Course(values, sign)


_SIGNS: Mapping[str | None, int] = {">=": 1, ">": 1, "<=": -1}


def _no_gain(name: str, curves: Sequence[_Course]) -> str:
    """What is wrong with these curves, as text; "" if they learn."""
    if all(max(curve.values) == min(curve.values) for curve in curves):
        values = curves[0].values
        steady = f"{name} stayed at {significant(values[0], 6)} through {counted(len(values), 'value')}"
        return f"{steady} in {counted(len(curves), 'run')}"
    directed = [curve for curve in curves if curve.sign]
    ends = [_ends(curve.values) for curve in directed]
    gains = [curve.sign * (last - first) for curve, (first, last) in zip(directed, ends, strict=True)]
    if len(directed) < FEWEST_RUNS or not is_no_gain(gains):
        return ""
    first, last = (_mean([pair[end] for pair in ends]) for end in (0, 1))
    way = f"from {significant(first, 4)} to {significant(last, 4)}"
    course = f"{name} went {way} on average over {counted(len(directed), 'run')}"
    return course if math.fsum(gains) <= 0 else f"{course}, no more than it fluctuates by"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Means of the first quarter and of the last."""
    quarter = max(1, len(values) // 4)
    return _mean(values[:quarter]), _mean(values[-quarter:])


def is_no_gain(gains: Sequence[float]) -> bool:
    """Whether the runs' gains are no larger than chance gives if nothing is learned."""
    n, mean = len(gains), _mean(gains)
    spread = math.sqrt(math.fsum((gain - mean) ** 2 for gain in gains) / (n - 1))
    return mean <= t_quantile(STUCK_SEEN, n - 1) * spread / math.sqrt(n)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

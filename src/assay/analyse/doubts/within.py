"""Doubts about what happened within the runs, from the series that they printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from assay.analyse.doubts.case import Case, Side, counted, percent
from assay.analyse.doubts.sequence import LEVEL
from assay.analyse.intervals import t_quantile
from assay.inputs import LONGEST_LINE
from assay.records import Doubt, Result, Series
from assay.units import significant

FEWEST_WINDOWS = 4
FEWEST_RUNS = 3
MATTERS = 0.002  # a start that lowers a run's figure by less than a tenth of the usual margin is no matter
FEWEST_VALUES = 3
STUCK_SEEN = 0.8  # share of sets that learn nothing which are told so; a higher one doubts slow learners


def cut_lines(case: Case) -> Doubt | None:
    """Logs with lines that were not read to their end."""
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
    return Doubt(
        "cut-lines",
        f"{'; '.join(parts)}: only the beginning of each was searched for figures",
        "End a line after each figure that counts",
    )


def warm_up(case: Case) -> Doubt | None:
    """Runs whose first quarter is slower than their second half: they were measured before they settled.

    One-sided t test over the runs of a side on log(first quarter / second half), each run one value.
    """
    for side in case.sides:
        starts, biases = _starts(side)
        if len(starts) < FEWEST_RUNS or not is_slow_start(starts, LEVEL / len(case.sides)):
            continue
        bias = -math.fsum(biases) / len(biases)
        if bias < MATTERS:
            continue
        slow = -math.expm1(math.fsum(starts) / len(starts))
        return Doubt(
            "warm-up",
            f"{side.name}: over {counted(len(starts), 'run')} the first quarter of the windows is "
            f"{percent(slow)} slower than the second half, which shifts the figure by {percent(bias)}",
            "Raise `warmup`, or measure for longer, until the first windows are as fast as the last",
        )
    return None


def is_slow_start(starts: Sequence[float], level: float) -> bool:
    """Whether the runs' log(first quarter / second half) lie below 0, by a one-sided t test at this level."""
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
    found = [
        start(series.y)
        for sample in side.group.samples
        if (series := _rate(sample.result)) is not None
        and len(series.y) >= FEWEST_WINDOWS
        and min(series.y) > 0
    ]
    return [begin for begin, _ in found], [bias for _, bias in found]


def _rate(result: Result) -> Series | None:
    """The run's throughput over time."""
    return next((s for s in result.reading.series if s.name == "throughput" and s.unit.endswith("/s")), None)


def learns_nothing(case: Case) -> Doubt | None:
    """A loss that does not fall, or an accuracy that does not rise, in the runs of a side.

    One-sided t test over the runs of a side on the gain from first to last quarter, each run one value.
    Runs that state `data` as synthetic are not asked: there is nothing to learn in them.
    """
    for side in case.sides:
        results = [
            sample.result
            for sample in side.group.samples
            if sample.result.reading.facts.get("data") != "synthetic"
        ]
        for name, gain in _LEARNT.items():
            curves = [curve for result in results for curve in _curves(result, name)]
            if curves and (evidence := _no_gain(name, curves, gain)):
                return Doubt(
                    "learns-nothing",
                    f"{side.name}: {evidence}",
                    "Check learning rate, data and precision before using the speed: a program that trains "
                    "nothing may leave work out",
                )
    return None


def _loss_gain(first: float, last: float) -> float:
    return first - last


def _accuracy_gain(first: float, last: float) -> float:
    return last - first


_LEARNT: dict[str, Callable[[float, float], float]] = {"loss": _loss_gain, "accuracy": _accuracy_gain}


def _curves(result: Result, name: str) -> Iterator[tuple[float, ...]]:
    """The run's values of this name, where there are enough to speak of a course."""
    found = [series.y for series in result.reading.series if series.name == name]
    if name == "accuracy" and not found and result.reading.training is not None:
        found = [tuple(value for _, value in result.reading.training.evaluations)]
    return (values for values in found if len(values) >= FEWEST_VALUES)


def _no_gain(name: str, curves: Sequence[tuple[float, ...]], gain: Callable[[float, float], float]) -> str:
    """What is wrong with these courses, in words; "" where they learn."""
    if all(max(values) == min(values) for values in curves):
        steady = f"{name} stayed at {significant(curves[0][0], 6)} through {counted(len(curves[0]), 'value')}"
        return f"{steady} in {counted(len(curves), 'run')}"
    ends = [(_mean(values[: _quarter(values)]), _mean(values[-_quarter(values) :])) for values in curves]
    gains = [gain(first, last) for first, last in ends]
    if len(curves) < FEWEST_RUNS or not is_no_gain(gains):
        return ""
    first, last = (_mean([pair[at] for pair in ends]) for at in (0, 1))
    way = f"from {significant(first, 4)} to {significant(last, 4)}"
    course = f"{name} went {way} on average over {counted(len(curves), 'run')}"
    return course if math.fsum(gains) <= 0 else f"{course}, no more than it wobbles by"


def is_no_gain(gains: Sequence[float]) -> bool:
    """Whether the runs' gains are no larger than chance makes them where nothing is learnt."""
    n, mean = len(gains), _mean(gains)
    spread = math.sqrt(math.fsum((gain - mean) ** 2 for gain in gains) / (n - 1))
    return mean <= t_quantile(STUCK_SEEN, n - 1) * spread / math.sqrt(n)


def _quarter(values: Sequence[float]) -> int:
    return max(1, len(values) // 4)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

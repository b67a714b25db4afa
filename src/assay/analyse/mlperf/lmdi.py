"""Time to train of two sets split exactly: how far they had to train, and how fast the system trained.

T = S + P + E + R: start, training, evaluation and rest, each set's mean over its runs. P is the trained
length (epochs or samples) times the time per unit, E the number of evaluations times the time of one.
With w_k = L(k_B, k_A) / L(T_B, T_A), where L is the logarithmic mean,

    ln C = w_P ln(N_B / N_A) + w_E ln(V_B / V_A)         convergence: lengths and evaluations
    ln Y = the remainder of ln(T_B / T_A)                system: times per unit, start and rest

so that C·Y = T_B / T_A up to rounding, even if some terms are zero.

Source: Ang, "The LMDI approach to decomposition analysis", Energy Policy 33 (2005) 867-871; zeros: Ang and
Liu, Energy Policy 35 (2007) 238-246. Intervals: delete-one jackknife per side, degrees of freedom by
Satterthwaite, or over blocks that contain both sides; their coverage: tests/analyse/mlperf/test_lmdi.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from assay.analyse.statistics.intervals import ROUNDING, LogInterval, t_quantile

Factor = Literal["convergence", "system"]


class Amounts(NamedTuple):
    """What one run, or the mean run of a set, took; times in minutes.

    length       trained to the target, in epochs or samples
    evaluations  their number
    """

    length: float
    evaluations: float
    start: float
    training: float
    evaluation: float
    rest: float

    @property
    def minutes(self) -> float:
        """All phases together."""
        return self.start + self.training + self.evaluation + self.rest


class Effect(NamedTuple):
    """What one cause adds to A's mean minutes on the way to B's."""

    name: str
    factor: Factor
    minutes: float


@dataclass(frozen=True)
class Effects:
    """The difference T_B − T_A in minutes; `mean_minutes` is L(T_B, T_A).

    A part's share of the difference divided by `mean_minutes` is the logarithm of its factor.
    """

    parts: tuple[Effect, ...]
    mean_minutes: float

    def log_of(self, factor: Factor | None = None) -> float:
        """Logarithm of a factor, or of the ratio of times if none is named."""
        return math.fsum(p.minutes for p in self.parts if factor in (None, p.factor)) / self.mean_minutes


@dataclass(frozen=True)
class Factors:
    """The ratio of mean times and its two factors, B/A, with their intervals on the log scale.

    confidence  of each interval
    """

    parts: Effects
    time: LogInterval
    convergence: LogInterval
    system: LogInterval
    confidence: float = 0.95


def log_mean(a: float, b: float) -> float:
    """Logarithmic mean of two amounts: (a − b) / ln(a / b), a if they are equal, 0 if one is 0.

    >>> round(log_mean(2.0, 1.0), 4)
    1.4427
    >>> log_mean(3.0, 3.0), log_mean(0.0, 5.0), log_mean(0.0, 0.0)
    (3.0, 0.0, 0.0)
    """
    if a == b:
        return a
    if min(a, b) <= 0:
        return 0.0
    low, high = min(a, b), max(a, b)
    if high < 2 * low:  # the difference of two close logarithms would lose precision
        return (high - low) / math.log1p((high - low) / low)
    return (high - low) / (math.log(high) - math.log(low))


def mean_run(runs: Sequence[Amounts]) -> Amounts:
    """The arithmetic mean of each amount."""
    return Amounts(*(math.fsum(column) / len(runs) for column in zip(*runs, strict=True)))


def decompose(a: Amounts, b: Amounts) -> Effects:
    """What leads from A's minutes to B's. Raises ValueError if a side took no time."""
    whole = log_mean(b.minutes, a.minutes)
    if whole <= 0:
        raise ValueError("a run that took no time can't be split")
    length = _moved(a.training, b.training, a.length, b.length)
    evaluations = _moved(a.evaluation, b.evaluation, a.evaluations, b.evaluations)
    return Effects(
        (
            Effect("length", "convergence", length),
            Effect("evaluations", "convergence", evaluations),
            Effect("start", "system", b.start - a.start),
            Effect("training", "system", b.training - a.training - length),
            Effect("evaluation", "system", b.evaluation - a.evaluation - evaluations),
            Effect("rest", "system", b.rest - a.rest),
        ),
        whole,
    )


def _moved(time_a: float, time_b: float, count_a: float, count_b: float) -> float:
    """Minutes that a phase gains because there is more to do; 0 if nothing is counted."""
    if min(count_a, count_b) <= 0:
        return 0.0
    return log_mean(time_b, time_a) * math.log(count_b / count_a)


def factors(
    a: Sequence[Amounts], b: Sequence[Amounts], *, paired: bool = False, confidence: float = 0.95
) -> Factors:
    """The split of B/A, with intervals if each side has at least two replicates.

    a, b    one per replicate: a run, or the mean run of a session
    paired  the replicates are in the order of the blocks (or sessions) that contain both sides
    """
    whole_a, whole_b = mean_run(a), mean_run(b)
    parts = decompose(whole_a, whole_b)
    less_a, less_b = _without_each(a), _without_each(b)
    if paired:
        without = [[decompose(*both) for both in zip(less_a, less_b, strict=True)]]
    else:
        without = [
            [decompose(rest, whole_b) for rest in less_a],
            [decompose(whole_a, rest) for rest in less_b],
        ]

    # Equal seeds give equal lengths in a block: if these vary between blocks, no spread is hidden.
    equal_in_blocks = paired and len({run.length for run in a}) > 1

    def interval(log_effect: Callable[[Effects], float]) -> LogInterval:
        samples = [[log_effect(split) for split in splits] for splits in without]
        if equal_in_blocks and _alike(samples):
            return LogInterval(log_effect(parts), 0.0, len(a))
        return _jackknife(log_effect(parts), samples, len(a) if paired else len(a) + len(b), confidence)

    return Factors(
        parts,
        interval(lambda split: split.log_of()),
        interval(lambda split: split.log_of("convergence")),
        interval(lambda split: split.log_of("system")),
        confidence,
    )


def _without_each(runs: Sequence[Amounts]) -> list[Amounts]:
    """The mean run of all but one, for each."""
    others = len(runs) - 1
    if others < 1:
        return []
    totals = [math.fsum(column) for column in zip(*runs, strict=True)]
    return [Amounts(*((t - own) / others for t, own in zip(totals, run, strict=True))) for run in runs]


def _jackknife(centre: float, samples: Sequence[Sequence[float]], n: int, confidence: float) -> LogInterval:
    """Interval around the overall estimate, from the estimates without one replicate of a sample."""
    if not all(samples):
        return LogInterval(centre, None, n, "one run has no spread to judge by")
    if _alike(samples):
        return LogInterval(centre, None, n, "all runs gave the same value: the spread is hidden")
    variances = [(len(sample) - 1) ** 2 / len(sample) * _variance(sample) for sample in samples]
    total = math.fsum(variances)
    degrees = total**2 / math.fsum(v**2 / (len(s) - 1) for v, s in zip(variances, samples, strict=True))
    return LogInterval(centre, t_quantile((1 + confidence) / 2, degrees) * math.sqrt(total), n)


def _alike(samples: Sequence[Sequence[float]]) -> bool:
    return all(max(sample) - min(sample) < ROUNDING for sample in samples if sample)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)

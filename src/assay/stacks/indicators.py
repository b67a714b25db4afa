"""How well performance indicators predict the workloads that they stand for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from os import PathLike
from statistics import fmean
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, function, option, progress_line, question
from assay.records import Estimate, to_compact_json, to_plain
from assay.stacks.effects import FEWEST, agreement, positive, rank_correlation, session_fits
from assay.stacks.known import Progress, hardware_document, known, reading
from assay.stacks.stack import COME_WITH, HardwareClass, Observation, Stack, StackMetric, StackWorkload
from assay.units import counted
from assay.view.blocks import Block, Paragraph


@dataclass(frozen=True)
class IndicatorListing(Answer):
    """The result of `stack_indicators`.

    predictions  of each workload on each hardware class, the best indicator first
    indicators   titles of those that were measured, whether or not with a workload
    """

    predictions: tuple[IndicatorPrediction, ...]
    indicators: tuple[str, ...]

    def view(self) -> Iterator[Block]:
        """Each workload with its indicators, the best first."""
        if not self.predictions:
            yield Paragraph(_nothing(self))
        for _, group in groupby(self.predictions, key=lambda prediction: prediction.workload.key):
            predictions = list(group)
            used = sum(prediction.predicts for prediction in predictions)
            series = predictions[0].workload
            share = f"{used} of {counted(len(predictions), 'indicator')} used for advice"
            lines = (_own_agreement(predictions[0]), *prediction_lines(predictions))
            heading = f"{series.title} on {series.hardware}: {share}"
            yield Paragraph("\n".join([heading, *(f"  {line}" for line in lines)]))

    def document(self) -> dict[str, Any]:
        """Each indicator with each workload."""
        return {
            "schema": "assay.stack-indicators/1",
            "predictions": [prediction.document() for prediction in self.predictions],
            "indicators": list(self.indicators),
        }


INDICATORS: Final = "indicators"
"""The workload whose figures are indicators."""
_CONFIDENCE: Final = 0.95  # of all indicators of a workload together


@dataclass(frozen=True)
class MetricSeries:
    """One primary metric of one workload on one hardware class: what can be compared."""

    hardware: HardwareClass
    workload: StackWorkload
    metric: StackMetric

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for equal series; those of several versions of a program are one."""
        return self.hardware.digest, self.workload.question, to_compact_json(self.metric)

    @property
    def title(self) -> str:
        """`resnet50 1x1 throughput`; of an indicator, `torch conv2d fp32`."""
        labels = self.metric.labels
        if self.workload.workload == INDICATORS:
            parts = (self.workload.parameters.get("framework"), labels.get("indicator"), labels.get("dtype"))
            return " ".join(str(word) for word in parts if word not in (None, "none"))
        shown = [f"{name}={value}" for name, value in sorted(labels.items())]
        return " ".join([self.workload.workload, self.workload.shape, self.metric.name, *shown])

    def document(self) -> dict[str, Any]:
        """Its title, workload and metric."""
        return {"title": self.title, "workload": to_plain(self.workload), "metric": to_plain(self.metric)}


@dataclass(frozen=True)
class IndicatorPrediction:
    """How well an indicator ranks steps from version to version like a workload does.

    correlation  Kendall's over `n` steps; its interval holds jointly for all indicators of the workload
    stacks       that both measured
    reliability  Kendall's of the workload's steps in one half of its sessions with the other half: what its
                 noise leaves to be predicted; None if too few steps are in both halves
    """

    indicator: MetricSeries
    workload: MetricSeries
    correlation: Estimate | None
    stacks: int
    reliability: Estimate | None

    @property
    def predicts(self) -> bool:
        """Whether the interval's lower bound is above 0: only then is the indicator used for advice."""
        return self.correlation is not None and (self.correlation.low or 0.0) > 0

    @property
    def why_not(self) -> str:
        """Why it is not used, as text; "" if it is."""
        c = self.correlation
        if self.predicts:
            return ""
        if c is None:
            return (
                "too few of the stacks that both measured differ in nothing but the next version of a package"
            )
        if c.low is None:
            return f"too few steps from version to version: {c.n}; an interval needs {FEWEST}"
        return "it is not shown to rank steps as the workload does"

    def document(self) -> dict[str, Any]:
        """Kendall's rank correlation, its interval, and whether it is used."""
        correlation, reliability = self.correlation, self.reliability
        return {
            "hardware": hardware_document(self.workload.hardware),
            "workload": self.workload.document(),
            "indicator": self.indicator.document(),
            "correlation": None if correlation is None else asdict(correlation),
            "stacks": self.stacks,
            "reliability": None if reliability is None else asdict(reliability),
            "predicts": self.predicts,
            "why_not": self.why_not,
        }


def series_of(observation: Observation) -> MetricSeries | None:
    """Where a figure belongs; None for a failure, a figure that does not lead, or one that is not above 0."""
    metric, workload, values = observation.metric, observation.workload, observation.values
    if (
        metric is None
        or workload is None
        or not (observation.primary and values)
        or not positive([observation])
    ):
        return None
    return MetricSeries(observation.hardware, workload, metric)


def predictions(observed: Iterable[Observation]) -> tuple[IndicatorPrediction, ...]:
    """Each indicator with each workload that was measured on the same hardware, the best of each first."""
    figures: dict[tuple[str, str, str], list[Observation]] = {}
    named: dict[tuple[str, str, str], MetricSeries] = {}
    for observation in observed:
        series = series_of(observation)
        if series is not None:
            named.setdefault(series.key, series)
            figures.setdefault(series.key, []).append(observation)
    indicators = [key for key, series in named.items() if series.workload.workload == INDICATORS]
    predicted = []
    for key in named.keys() - set(indicators):
        predictors = [
            indicator
            for indicator in indicators
            if indicator[0] == key[0] and _common(figures[indicator], figures[key])
        ]
        confidence = 1 - (1 - _CONFIDENCE) / max(1, len(predictors))
        reliability = _reliability(figures[key]) if predictors else None
        ranked = []
        for name in predictors:
            placed = _placed(figures[name], figures[key])
            correlation = rank_correlation(_steps(placed), confidence)
            ranked.append(IndicatorPrediction(named[name], named[key], correlation, len(placed), reliability))
        predicted += sorted(ranked, key=_strength, reverse=True)
    predicted.sort(key=lambda prediction: (str(prediction.workload.hardware), prediction.workload.title))
    return tuple(predicted)


def _strength(prediction: IndicatorPrediction) -> tuple[float, float]:
    c = prediction.correlation
    return (-2.0, -2.0) if c is None else (-2.0 if c.low is None else c.low, c.value)


def _common(a: Iterable[Observation], b: Iterable[Observation]) -> set[str]:
    return {software_of(seen.stack) for seen in a} & {software_of(seen.stack) for seen in b}


def _reliability(observed: Sequence[Observation]) -> Estimate | None:
    """How the steps in every second session rank like those in the others."""
    sessions = sorted({(seen.origin, seen.session) for seen in observed})
    even = set(sessions[::2])
    first = [seen for seen in observed if (seen.origin, seen.session) in even]
    second = [seen for seen in observed if (seen.origin, seen.session) not in even]
    return rank_correlation(_steps(_placed(first, second)))


def _placed(a: Sequence[Observation], b: Sequence[Observation]) -> list[_PlacedStack]:
    """The stacks that both measured."""
    stacks = {software_of(observation.stack): observation.stack for observation in (*a, *b)}
    predicted, measured = _levels(a), _levels(b)
    return [
        _PlacedStack(stack, (predicted[name][0], measured[name][0]), predicted[name][1], measured[name][1])
        for name, stack in stacks.items()
        if name in predicted and name in measured
    ]


def software_of(stack: Stack) -> str:
    """Equal for stacks that differ only in the kernel, driver or microcode, which nobody can choose."""
    return str((sorted(stack.packages.items()), _setting(stack)))


def _setting(stack: Stack) -> Hashable:
    return stack.system.get("python.version"), tuple(sorted(stack.settings.items()))


def _levels(observed: Sequence[Observation]) -> dict[str, tuple[int, float]]:
    """Stack → its set of linked stacks, and how good its figures are, as a logarithm."""
    logs: dict[tuple[Hashable, Hashable], list[float]] = {}
    for observation in observed:
        better = -1 if observation.metric is not None and observation.metric.better == "lower" else 1
        session = observation.origin, observation.session
        cell = logs.setdefault((software_of(observation.stack), session), [])
        cell += [better * math.log(value) for _, value in observation.values]
    fits = session_fits([(*cell, fmean(values)) for cell, values in logs.items()])
    return {
        str(stack): (index, level) for index, fit in enumerate(fits) for stack, level in fit.levels.items()
    }


@dataclass(frozen=True)
class _PlacedStack:
    """A stack with both of its figures, as logarithms; figures of different sets can't be compared."""

    stack: Stack
    sets: tuple[int, int]
    predicted: float
    measured: float


def _steps(placed: Sequence[_PlacedStack]) -> list[tuple[float, float]]:
    """What each next version of a package does to both figures, the mean over all stacks that show it."""
    stacks = [placed_stack.stack for placed_stack in placed]
    names = _own_packages(stacks)
    steps: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for name in names:
        order = {version: rank for rank, version in enumerate(_in_order(stacks, name))}
        others = [other for other in names if other != name]
        alike: dict[Hashable, dict[int, _PlacedStack]] = {}
        for placed_stack in placed:
            stack = placed_stack.stack
            if (version := stack.packages.get(name)) in order:
                versions = [stack.packages.get(other) for other in others]
                rest = placed_stack.sets, _setting(stack), *versions
                alike.setdefault(rest, {})[order[version]] = placed_stack
        for by_rank in alike.values():
            for rank in by_rank.keys() & {place - 1 for place in by_rank}:
                before, after = by_rank[rank], by_rank[rank + 1]
                step = after.predicted - before.predicted, after.measured - before.measured
                steps.setdefault((name, rank), []).append(step)
    return [(fmean(x for x, _ in pairs), fmean(y for _, y in pairs)) for pairs in steps.values()]


def _in_order(stacks: Sequence[Stack], name: str) -> list[str]:
    """The versions of a package, the oldest first; without those that have no place in the order."""
    versions: dict[str, Version] = {}
    for text in sorted({stack.packages[name] for stack in stacks if name in stack.packages}):
        with suppress(InvalidVersion):
            versions[text] = Version(text)
    return sorted(versions, key=versions.__getitem__)


def _own_packages(stacks: Sequence[Stack]) -> list[str]:
    """Packages that differ by themselves.

    Libraries that a wheel requires at exact versions are part of it, and so is a package whose version always
    follows from another's.
    """
    brought = tuple(prefix for prefixes in COME_WITH.values() for prefix in prefixes)
    bringing = {name for name in COME_WITH for stack in stacks if name in stack.packages}
    names = sorted({name for stack in stacks for name in stack.packages})
    varied = [
        name
        for name in names
        if not (bringing and name.startswith(brought))
        and len({stack.packages.get(name) for stack in stacks}) > 1
    ]
    return [name for index, name in enumerate(varied) if not _is_known_from_another(stacks, varied, index)]


def _is_known_from_another(stacks: Sequence[Stack], names: Sequence[str], index: int) -> bool:
    """Whether another one's version determines this one's; of two that determine each other, one stays."""
    return any(
        _follows(stacks, names[index], other) and (place < index or not _follows(stacks, other, names[index]))
        for place, other in enumerate(names)
        if place != index
    )


def _follows(stacks: Sequence[Stack], name: str, other: str) -> bool:
    """Whether a package's version is known from the other's."""
    both = {(stack.packages.get(other), stack.packages.get(name)) for stack in stacks}
    return len(both) == len({version for version, _ in both})


@question
class StackIndicators(Question):
    """Show how well each performance indicator predicts each workload.

    An indicator predicts a workload if the steps from one version of a package to the next change both alike.
    The rank correlation (Kendall's) of steps comes with its 95 % interval, held jointly for all indicators of
    a workload. Only indicators whose interval lies above 0 are used by `assay stack advise`.

    A step is between stacks that differ in nothing else and were measured on the same hardware, in sessions
    that are linked by common stacks.

    \b
    Examples:
      assay stack indicators
      assay stack indicators --workload resnet50 --json
    """

    workload: str | None = option("Only how they predict this workload.", default=None, metavar="NAME")
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)
    progress: Progress | None = progress_line(reading, default=None)

    def answer(self) -> IndicatorListing:
        """Each indicator. Raises InputError if there are neither runs nor imported bundles."""
        observed = known(runs_directory(self.runs), self.progress).observations
        shown = (p for p in predictions(observed) if self.workload in (None, p.workload.workload.workload))
        every = filter(None, map(series_of, observed))
        titles = {series.title for series in every if series.workload.workload == INDICATORS}
        return IndicatorListing(tuple(shown), tuple(sorted(titles)))


stack_indicators = function(StackIndicators, StackIndicators.answer)


def _own_agreement(prediction: IndicatorPrediction) -> str:
    """How well the workload predicts itself: what its noise leaves for any indicator."""
    r = prediction.reliability
    if r is None:
        return "its own steps were not measured in two halves of its sessions: how much is noise is unknown"
    ends = "no interval" if r.low is None or r.high is None else f"{r.low:.2f} to {r.high:.2f}"
    return (
        f"its own steps, one half of its sessions with the other: rank correlation {r.value:.2f} ({ends}) "
        f"over {r.n} steps; where that is low, noise limits the correlations below"
    )


def _nothing(listing: IndicatorListing) -> str:
    if not listing.indicators:
        return "No indicator was measured. Run the workload indicators on the stacks that you measure."
    listed = ", ".join(listing.indicators)
    where = "with an indicator and a workload on the same hardware"
    return f"No stack was measured {where}. Indicators: {listed}."


def prediction_lines(predictions: Sequence[IndicatorPrediction]) -> Iterator[str]:
    """Each indicator with its correlation, what that rests on, and why it is not used."""
    wide = max(len(prediction.indicator.title) for prediction in predictions)
    for prediction in predictions:
        why = "" if prediction.predicts else f"; not used: {prediction.why_not}"
        yield f"{prediction.indicator.title:{wide}}  {correlation(prediction)}{why}"


def correlation(prediction: IndicatorPrediction) -> str:
    """`rank correlation 0.81 (0.32 to 0.96) over 11 steps, 12 stacks: 90 % of pairs of steps …`."""
    c = prediction.correlation
    stacks = counted(prediction.stacks, "stack")
    if c is None:
        return f"rank correlation unknown, {stacks}"
    ends = "no interval" if c.low is None or c.high is None else f"{c.low:.2f} to {c.high:.2f}"
    return (
        f"rank correlation {c.value:.2f} ({ends}) over {c.n} steps, {stacks}: "
        f"{agreement(c.value):.0%} of pairs of steps ordered alike".replace("%", " %")
    )

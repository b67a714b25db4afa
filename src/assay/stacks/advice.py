"""Which observed stack to use for a goal, and why: only what was measured decides.

Candidates are the observed stacks that meet the requirements on the hardware class. Each is compared with the
reference by the sessions that link them, also through stacks that don't meet the requirements and are never
chosen. What may be claimed of all of them jointly counts, because the best of many looks better than it is;
so do the other stacks of their sessions, because the requirements may have been narrowed to the best.
Observations on other hardware, and those that are too old, are counted and don't decide.

Performance indicators never decide by themselves. One that is shown to order stacks like the workload
(`indicators.py`) is used where the workload's own figures decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay.analyse.comparison.families import corrected
from assay.analyse.comparison.verdict import MOST_LOST
from assay.records import DEFAULT_MARGIN, Comparison
from assay.stacks.effects import Level, LinkedStacks, level
from assay.stacks.indicators import (
    INDICATORS,
    IndicatorPrediction,
    MetricSeries,
    predictions,
    series_of,
    software_of,
)
from assay.stacks.stack import HardwareClass, Observation, Stack
from assay.workloads.workload import PEAK_RSS

Goal = Literal["performance", "stable", "latest", "testing", "security"]
GOALS: Final[tuple[Goal, ...]] = ("performance", "stable", "latest", "testing", "security")
STABLE_SESSIONS: Final = 2  # in which a stack worked without a failure


@dataclass(frozen=True)
class Candidate:
    """An observed stack that meets the requirements.

    observations  of the deciding metric, on the hardware class
    failures      of stacks with the same packages there
    level         how fast it is
    peaks         observations of the peak memory of its largest process, with the same workload
    comparison    with the reference; None for the reference itself
    through       the stacks that link it to the reference, if no session measured both
    """

    name: str
    stack: Stack
    observations: tuple[Observation, ...]
    failures: tuple[Observation, ...]
    level: Level
    peaks: tuple[Observation, ...] = ()
    comparison: Comparison | None = None
    through: tuple[str, ...] = ()

    @property
    def newest(self) -> float:
        """When it was last observed, seconds since the epoch."""
        return max(observation.at for observation in self.observations)

    @property
    def memory(self) -> Level | None:
        """The peak memory of its largest process, bytes; None if no run counted it."""
        return level(self.peaks) if self.peaks else None

    @property
    def verdict(self) -> str:
        """In comparison with the reference; `reference` for itself."""
        return "reference" if self.comparison is None else self.comparison.verdict


@dataclass(frozen=True)
class Evidence:
    """What observations say about the requirements on a hardware class.

    series      what decides; None if nothing was measured
    candidates  the reference first
    latest      the reference has the versions that a resolver picks without any knowledge
    broken      failures of stacks that meet the requirements and never worked
    foreign     observations left out because they are of other hardware
    stale       observations left out because they are too old
    busy        observations left out because others used the CPUs, of stacks with undisturbed ones
    """

    series: MetricSeries | None
    candidates: tuple[Candidate, ...]
    latest: bool
    broken: tuple[Observation, ...]
    foreign: int
    stale: int
    busy: int

    @property
    def compared(self) -> bool:
        """Whether a candidate is shown to be faster than the reference, slower, or equivalent."""
        return bool({candidate.verdict for candidate in self.candidates} - {"reference", "undecided"})


@dataclass(frozen=True)
class AdviceRequest:
    """What advice is asked for, and what is known.

    python   version of the target; candidates have the same major and minor one; None: any
    since    observations before are stale, seconds since the epoch
    latest   the versions that a resolver picks without any knowledge: if measured, they are the reference
    margin   share that counts as equal
    """

    observed: Sequence[Observation]
    requirements: Sequence[Requirement]
    hardware: HardwareClass
    python: str | None
    since: float
    latest: Mapping[str, str]
    margin: float

    def evidence(
        self, workload: str | None, goal: Goal
    ) -> tuple[Evidence, tuple[IndicatorPrediction, ...], IndicatorPrediction | None]:
        """The evidence; how well indicators predict the workload; the one that the evidence is of, if one is.

        Indicators speak only for performance, and only where the workload's figures decide nothing.
        """
        series = self._deciding(workload)
        evidence = self.gathered(series)
        indicators = () if series is None else self._indicators(series)
        if goal == "performance" and not evidence.compared:
            for prediction in indicators:
                predicted = self.gathered(prediction.indicator) if prediction.predicts else None
                if predicted is not None and predicted.compared:
                    return predicted, indicators, prediction
        return evidence, indicators, None

    @cached_property
    def names(self) -> list[str]:
        """Of the required packages."""
        return [canonicalize_name(requirement.name) for requirement in self.requirements]

    def _met_by(self, stack: Stack) -> bool:
        """Whether a stack has every required package at an allowed version, and the target's Python."""
        own = str(stack.system.get("python.version") or "")
        if self.python is not None and own.split(".")[:2] != self.python.split(".")[:2]:
            return False
        versions = [stack.packages.get(name) for name in self.names]
        return all(
            version is not None and requirement.specifier.contains(version, prereleases=True)
            for version, requirement in zip(versions, self.requirements, strict=True)
        )

    def _fresh(self) -> Iterator[Observation]:
        return (observation for observation in self.observed if observation.at >= self.since)

    def _deciding(self, workload: str | None) -> MetricSeries | None:
        """What decides: the series of one workload that measured most of the stacks that meet them.

        workload  only series of it; None: of any but the indicators

        If none of them was measured, it is the one that measured most of all stacks: an indicator may
        predict it.
        """
        stacks: dict[str, set[str]] = {}
        meeting: dict[str, list[str]] = {}
        named: dict[str, MetricSeries] = {}
        for observation in self._fresh():
            series = series_of(observation)
            if series is None or series.hardware.digest != self.hardware.digest:
                continue
            name = series.workload.workload
            if name == INDICATORS or workload not in (None, name):
                continue
            key = str(series.key)
            named.setdefault(key, series)
            stacks.setdefault(key, set()).add(observation.stack.digest)
            if self._met_by(observation.stack):
                meeting.setdefault(key, []).append(observation.stack.digest)

        def coverage(key: str) -> tuple[int, int, int]:
            own = meeting.get(key, [])
            return len(set(own)), len(own), len(stacks[key])

        return named[max(named, key=coverage)] if named else None

    def _indicators(self, series: MetricSeries) -> tuple[IndicatorPrediction, ...]:
        """How well each indicator predicts this series, the best first."""
        here = [seen for seen in self._fresh() if seen.hardware.digest == series.hardware.digest]
        return tuple(prediction for prediction in predictions(here) if prediction.workload.key == series.key)

    def gathered(self, deciding: MetricSeries | None) -> Evidence:
        """The candidates and their comparison with the reference.

        deciding  whose figures decide; None: nothing does

        The reference is the candidate with the newest versions, else the one with the most sessions.
        """
        meeting = [seen for seen in self.observed if self._met_by(seen.stack)]
        local = [seen for seen in meeting if seen.hardware.digest == self.hardware.digest]
        fresh = [seen for seen in local if seen.at >= self.since]
        failures = [seen for seen in fresh if seen.failure is not None]
        by_software = self._by_software(deciding)
        measured = {software: _undisturbed(observations) for software, observations in by_software.items()}
        candidates = [
            self._candidate(observations, failures, fresh, deciding)
            for observations in measured.values()
            if self._met_by(observations[0].stack)
        ]
        ordered = sorted(candidates, key=self._place)
        worked = {str(candidate.stack.packages) for candidate in candidates}
        return Evidence(
            series=deciding,
            candidates=self._compared(ordered, measured),
            latest=bool(ordered) and self._is_latest(ordered[0]),
            broken=tuple(failure for failure in failures if str(failure.stack.packages) not in worked),
            foreign=len(meeting) - len(local),
            stale=len(local) - len(fresh),
            busy=sum(
                len(observations) - len(measured[software])
                for software, observations in by_software.items()
                if self._met_by(observations[0].stack)
            ),
        )

    def _by_software(self, deciding: MetricSeries | None) -> dict[str, list[Observation]]:
        """What the series observed of the same software together, the newest first."""
        by_software: dict[str, list[Observation]] = {}
        for observation in self._fresh():
            series = series_of(observation)
            if deciding is not None and series is not None and series.key == deciding.key:
                by_software.setdefault(software_of(observation.stack), []).append(observation)
        return {name: sorted(every, key=lambda seen: -seen.at) for name, every in by_software.items()}

    def _candidate(
        self,
        observations: Sequence[Observation],
        failures: Sequence[Observation],
        fresh: Sequence[Observation],
        deciding: MetricSeries | None,
    ) -> Candidate:
        stack = observations[0].stack
        versions = ", ".join(f"{name} {stack.packages[name]}" for name in self.names)
        return Candidate(
            name=f"{versions} [{stack.digest[:8]}]",
            stack=stack,
            observations=tuple(observations),
            failures=tuple(failure for failure in failures if failure.stack.packages == stack.packages),
            level=level(observations),
            peaks=_peaks(software_of(stack), deciding, fresh),
        )

    def _is_latest(self, candidate: Candidate) -> bool:
        return all(candidate.stack.packages.get(name) == self.latest.get(name) for name in self.names)

    def _place(self, candidate: Candidate) -> tuple[bool, int, float]:
        """The reference has the lowest one."""
        return not self._is_latest(candidate), -candidate.level.sessions, -candidate.newest

    def _compared(
        self, candidates: Sequence[Candidate], measured: Mapping[str, Sequence[Observation]]
    ) -> tuple[Candidate, ...]:
        """The reference, and those that have a ratio to it, with verdicts that may be claimed jointly.

        measured  every stack that was measured in the same series: what links the candidates
        """
        if not candidates:
            return ()
        reference, *others = candidates
        linked = LinkedStacks(measured)
        compared, comparisons, rivals = [], [], 1
        for candidate in others:
            sides = software_of(reference.stack), software_of(candidate.stack)
            result = linked.compare(*sides, (reference.name, candidate.name), self.margin)
            if result is not None:
                through = tuple(self._link_name(measured[link][0].stack) for link in result.through)
                compared.append(replace(candidate, through=through))
                comparisons.append(result.comparison)
                rivals = max(rivals, result.rivals)
        claimed = corrected(comparisons, rivals)
        pairs = zip(compared, claimed, strict=True)
        return reference, *(replace(candidate, comparison=c) for candidate, c in pairs)

    def _link_name(self, stack: Stack) -> str:
        """Of a stack that need not meet the requirements, nor be of the same Python."""
        versions = [f"{name} {stack.packages[name]}" for name in self.names if name in stack.packages]
        python = stack.system.get("python.version")
        return ", ".join([*versions, *([f"Python {python}"] if python else [])]) + f" [{stack.digest[:8]}]"


def _peaks(
    software: str, deciding: MetricSeries | None, observed: Iterable[Observation]
) -> tuple[Observation, ...]:
    """Observations of the peak memory of a stack with the workload that decides."""
    if deciding is None or deciding.workload.workload == INDICATORS:
        return ()
    question = deciding.workload.question
    return tuple(
        seen
        for seen in observed
        if seen.metric is not None
        and seen.metric.name == PEAK_RSS.name
        and seen.workload is not None
        and seen.workload.question == question
        and software_of(seen.stack) == software
    )


def _undisturbed(observed: list[Observation]) -> list[Observation]:
    """Those that others did not disturb beyond what allows a verdict; all of them if each was disturbed."""
    return [observation for observation in observed if observation.lost_to_others <= MOST_LOST] or observed


def pick(evidence: Evidence, goal: Goal) -> Candidate | None:
    """The candidate for a goal that observations decide; None if they don't.

    performance  the fastest of those shown to be faster than the reference, else the reference
    stable       of those that worked in several sessions without a failure, and are not slower than the
                 reference, the one observed in most
    """
    if goal not in ("performance", "stable"):
        return None
    sound = [candidate for candidate in evidence.candidates if not candidate.failures]
    if goal == "stable":
        steady = [
            candidate
            for candidate in sound
            if candidate.level.sessions >= STABLE_SESSIONS and candidate.verdict != "slower"
        ]
        return max(steady, key=lambda candidate: (candidate.level.sessions, candidate.newest), default=None)
    faster = [candidate for candidate in sound if candidate.verdict == "faster"]
    if faster:
        return max(faster, key=_gain)
    return next((candidate for candidate in sound if candidate.verdict == "reference"), None)


def _gain(candidate: Candidate) -> float:
    """By how much it is better than the reference: above 1 is better."""
    c = candidate.comparison
    if c is None:
        return 1.0
    return c.ratio.value if c.point.better == "higher" else 1 / c.ratio.value


def front(
    evidence: Evidence, sizes: Mapping[str, int | None], ages: Mapping[str, float | None]
) -> frozenset[str]:
    """Digests of the candidates that no other one beats: in speed by verdict, in memory, in size and in age.

    Memory that differs by less than the usual margin is equal; it is left out if no candidate has a figure.

    sizes, ages  digest of the stack → bytes to download, and when its newest version appeared; None: unknown
    """

    def beats(a: Candidate, b: Candidate) -> bool:
        gains = [_speed_order(a, b), _order(sizes, a, b, smaller=True), _order(ages, a, b, smaller=False)]
        gains += [_memory_order(a, b)] if memory else []
        return all(gain is not None and gain >= 0 for gain in gains) and any(gain for gain in gains)

    candidates = evidence.candidates
    memory = any(candidate.memory is not None for candidate in candidates)
    return frozenset(
        b.stack.digest for b in candidates if not any(beats(a, b) for a in candidates if a is not b)
    )


def _speed_order(a: Candidate, b: Candidate) -> int | None:
    """1: A is faster than B by their verdicts against the reference; 0: equivalent; None: not known."""
    rank = {"faster": 1, "reference": 0, "equivalent": 0, "slower": -1}
    if a.verdict not in rank or b.verdict not in rank:
        return None
    difference = rank[a.verdict] - rank[b.verdict]
    if difference == 0 and rank[a.verdict] != 0:
        return None  # both faster, or both slower: by how much relative to one another is not judged
    return (difference > 0) - (difference < 0)


def _memory_order(a: Candidate, b: Candidate) -> int | None:
    """1: every run of A needed less memory than any of B; 0: about the same; None: not known."""
    if a.memory is None or b.memory is None:
        return None
    if abs(math.log(a.memory.estimate.value / b.memory.estimate.value)) <= math.log(1 + DEFAULT_MARGIN):
        return 0
    x, y = ([value for peak in side.peaks for _, value in peak.values] for side in (a, b))
    return (max(x) < min(y)) - (max(y) < min(x)) or None


def _order(
    values: Mapping[str, float | int | None], a: Candidate, b: Candidate, *, smaller: bool
) -> int | None:
    x, y = values.get(a.stack.digest), values.get(b.stack.digest)
    if x is None or y is None:
        return None
    return ((x < y) - (x > y)) * (1 if smaller else -1)

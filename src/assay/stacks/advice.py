"""Which observed stack to use for a goal, and why: only what was measured decides.

Candidates are the observed stacks that meet the requirements on the hardware class. Each is compared with the
reference by the sessions that link them, also through stacks that don't meet the requirements and are never
chosen. What may be claimed of all of them jointly counts, because the best of many looks better than it is;
so do the other stacks of their sessions, because the requirements may have been narrowed to the best.
Observations on other hardware, and those that are too old, are counted and don't decide.

Performance indicators never decide by themselves. One that is shown to order stacks like the workload
(`predictions.py`) is used where the workload's own figures decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


def meets(stack: Stack, requirements: Iterable[Requirement], python: str | None) -> bool:
    """Whether a stack has every required package at an allowed version, and this Python, major.minor."""
    own = str(stack.system.get("python.version") or "")
    if python is not None and own.split(".")[:2] != python.split(".")[:2]:
        return False
    return all(
        _allowed(stack.packages.get(canonicalize_name(requirement.name)), requirement)
        for requirement in requirements
    )


def _allowed(version: str | None, requirement: Requirement) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def gather(
    observed: Sequence[Observation],
    requirements: Sequence[Requirement],
    hardware: HardwareClass,
    *,
    python: str | None,
    since: float,
    latest: Mapping[str, str],
    margin: float,
    deciding: MetricSeries | None,
) -> Evidence:
    """The candidates and their comparison with the reference.

    python    major.minor of the target; None: any
    since     observations before are stale, seconds since the epoch
    latest    the versions that a resolver picks without any knowledge: if measured, they are the reference
    deciding  whose figures decide; None: nothing does

    The reference is otherwise the candidate with the most sessions.
    """
    meeting = [observation for observation in observed if meets(observation.stack, requirements, python)]
    local = [observation for observation in meeting if observation.hardware.digest == hardware.digest]
    fresh = [observation for observation in local if observation.at >= since]
    failures = [observation for observation in fresh if observation.failure is not None]
    by_software = _by_software(
        observation
        for observation in observed
        if deciding
        and observation.at >= since
        and (series := series_of(observation))
        and series.key == deciding.key
    )
    measured = {software: _undisturbed(observations) for software, observations in by_software.items()}
    names = [canonicalize_name(requirement.name) for requirement in requirements]
    candidates = [
        Candidate(
            name=_name(observations[0].stack, names),
            stack=observations[0].stack,
            observations=tuple(observations),
            failures=tuple(f for f in failures if f.stack.packages == observations[0].stack.packages),
            level=level(observations),
            peaks=_peaks(software, deciding, fresh),
        )
        for software, observations in measured.items()
        if meets(observations[0].stack, requirements, python)
    ]
    ordered = _reference_first(candidates, names, latest)
    worked = {str(candidate.stack.packages) for candidate in candidates}
    return Evidence(
        series=deciding,
        candidates=_compared(ordered, measured, names, margin),
        latest=bool(ordered) and _is_latest(ordered[0], names, latest),
        broken=tuple(failure for failure in failures if str(failure.stack.packages) not in worked),
        foreign=len(meeting) - len(local),
        stale=len(local) - len(fresh),
        busy=sum(
            len(observations) - len(measured[software])
            for software, observations in by_software.items()
            if meets(observations[0].stack, requirements, python)
        ),
    )


def _peaks(
    software: str, deciding: MetricSeries | None, observed: Iterable[Observation]
) -> tuple[Observation, ...]:
    """Observations of the peak memory of a stack with the workload that decides."""
    if deciding is None or deciding.workload.workload == INDICATORS:
        return ()
    question = deciding.workload.question
    return tuple(
        observation
        for observation in observed
        if observation.metric is not None
        and observation.metric.name == PEAK_RSS.name
        and observation.workload is not None
        and observation.workload.question == question
        and software_of(observation.stack) == software
    )


def deciding_series(
    observed: Iterable[Observation],
    requirements: Sequence[Requirement],
    hardware: HardwareClass,
    *,
    python: str | None,
    since: float,
    workload: str | None = None,
) -> MetricSeries | None:
    """What decides: the series of one workload that measured most of the stacks that meet the requirements.

    workload  only series of it; None: of any but the indicators

    If none of them was measured, it is the one that measured most of all stacks: an indicator may predict it.
    """
    stacks: dict[tuple[str, str, str], set[str]] = {}
    meeting: dict[tuple[str, str, str], list[str]] = {}
    named: dict[tuple[str, str, str], MetricSeries] = {}
    for observation in observed:
        series = series_of(observation)
        if series is None or series.workload.workload == INDICATORS or observation.at < since:
            continue
        if series.hardware.digest != hardware.digest or workload not in (None, series.workload.workload):
            continue
        named.setdefault(series.key, series)
        stacks.setdefault(series.key, set()).add(observation.stack.digest)
        if meets(observation.stack, requirements, python):
            meeting.setdefault(series.key, []).append(observation.stack.digest)

    def coverage(key: tuple[str, str, str]) -> tuple[int, int, int]:
        own = meeting.get(key, [])
        return len(set(own)), len(own), len(stacks[key])

    return named[max(named, key=coverage)] if named else None


def indicators_of(
    observed: Iterable[Observation], series: MetricSeries | None, since: float
) -> tuple[IndicatorPrediction, ...]:
    """How well each indicator predicts this series, the best first."""
    if series is None:
        return ()
    here = [
        observation
        for observation in observed
        if observation.at >= since and observation.hardware.digest == series.hardware.digest
    ]
    return tuple(prediction for prediction in predictions(here) if prediction.workload.key == series.key)


def _by_software(observed: Iterable[Observation]) -> dict[str, list[Observation]]:
    """Observations of the same software together, the newest first."""
    by_software: dict[str, list[Observation]] = {}
    for observation in observed:
        by_software.setdefault(software_of(observation.stack), []).append(observation)
    return {
        software: sorted(observations, key=lambda observation: -observation.at)
        for software, observations in by_software.items()
    }


def _undisturbed(observed: list[Observation]) -> list[Observation]:
    """Those that others did not disturb beyond what allows a verdict; all of them if each was disturbed."""
    return [observation for observation in observed if observation.lost_to_others <= MOST_LOST] or observed


def _name(stack: Stack, required: Sequence[str]) -> str:
    return ", ".join(f"{name} {stack.packages[name]}" for name in required) + f" [{stack.digest[:8]}]"


def _link_name(stack: Stack, required: Sequence[str]) -> str:
    """Of a stack that need not meet the requirements, nor be of the same Python."""
    versions = [f"{name} {stack.packages[name]}" for name in required if name in stack.packages]
    python = stack.system.get("python.version")
    return ", ".join([*versions, *([f"Python {python}"] if python else [])]) + f" [{stack.digest[:8]}]"


def _is_latest(candidate: Candidate, names: Sequence[str], latest: Mapping[str, str]) -> bool:
    return all(candidate.stack.packages.get(name) == latest.get(name) for name in names)


def _reference_first(
    candidates: list[Candidate], names: Sequence[str], latest: Mapping[str, str]
) -> list[Candidate]:
    def place(candidate: Candidate) -> tuple[bool, int, float]:
        return not _is_latest(candidate, names, latest), -candidate.level.sessions, -candidate.newest

    return sorted(candidates, key=place)


def _compared(
    candidates: Sequence[Candidate],
    measured: Mapping[str, Sequence[Observation]],
    names: Sequence[str],
    margin: float,
) -> tuple[Candidate, ...]:
    """The reference, and those that have a ratio to it, with verdicts that may be claimed jointly.

    measured  every stack that was measured in the same series: what links the candidates
    """
    if not candidates:
        return ()
    reference, *others = candidates
    linked = LinkedStacks(measured)
    compared = []
    rivals = 1
    for candidate in others:
        sides = software_of(reference.stack), software_of(candidate.stack)
        result = linked.compare(*sides, (reference.name, candidate.name), margin)
        if result is not None:
            through = tuple(_link_name(measured[link][0].stack, names) for link in result.through)
            compared.append(replace(candidate, comparison=result.comparison, through=through))
            rivals = max(rivals, result.rivals)
    comparisons = corrected(
        [candidate.comparison for candidate in compared if candidate.comparison is not None], rivals
    )
    return (
        reference,
        *(
            replace(candidate, comparison=comparison)
            for candidate, comparison in zip(compared, comparisons, strict=True)
        ),
    )


def pick(evidence: Evidence, goal: Goal) -> Candidate | None:
    """The candidate for a goal that observations decide; None if they don't.

    performance  the fastest of those shown to be faster than the reference, else the reference
    stable       of those that worked in several sessions without a failure, and are not slower than the
                 reference, the one observed in most
    """
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

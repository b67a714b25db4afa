"""Which versions to install for a goal, locked, each justified by what was observed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.questions.browsing import has_runs
from assay.questions.evidence import runs_directory
from assay.records import DEFAULT_MARGIN, to_plain
from assay.stacks.known import known
from assay.units import margin_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from packaging.requirements import Requirement

    from assay.records import Scalar
    from assay.stacks.advice import Candidate, Evidence, Goal
    from assay.stacks.advisories import Advisory, AdvisorySource
    from assay.stacks.indicators import IndicatorPrediction, MetricSeries
    from assay.stacks.knowledge import Knowledge
    from assay.stacks.stack import HardwareClass, Observation
    from assay.stacks.uv import Lock, Target

DEFAULT_MAX_AGE_S: Final = 365 * 86400.0
INDEX: Final = "index"
"""Instead of a database of advisories: what the package index says."""
_PYPI: Final = "https://pypi.org/simple"
_MOST_EXCLUDED: Final = 50  # vulnerable versions that are excluded before giving up
_THREADS: Final = "OMP_NUM_THREADS"
_MOST_RESOLVED: Final = 6  # candidates of which the size and age are shown


@dataclass(frozen=True)
class CandidateFigures:
    """A candidate next to the goals that compete: None is unknown.

    size_bytes   to download
    newest_at    when its newest package appeared, seconds since the epoch
    advisories   known vulnerabilities; None without a database
    on_front     no other candidate is at least as good in everything and better in something
    """

    candidate: Candidate
    size_bytes: int | None
    newest_at: float | None
    advisories: int | None
    on_front: bool


@dataclass(frozen=True)
class PackageChoice:
    """Why a required package has its version.

    measured    the chosen stack, of which it is a part, was observed
    yanked      why its author withdrew it; None if nobody did
    """

    name: str
    version: str
    measured: bool
    yanked: str | None


@dataclass(frozen=True)
class StackAdvice:
    """The result of `advise_stack`.

    chosen        what observations decided; None if they decide nothing, and the resolver's choice stands
    indicators    how well each predicts the workload, the best first
    indicator     the one whose figures decided, in `evidence`; None if those of the workload did
    whole         the lock has every package of the chosen stack at its observed version
    settings      variables that the chosen stack was measured with
    packages      the required ones
    vulnerable    advisories that affect the lock; None without a database
    excluded      vulnerable versions that were excluded
    known_failures  of stacks that have the required packages at the versions of the lock
    requirements  the lock as a requirements.txt with hashes
    """

    goal: Goal
    hardware: HardwareClass
    evidence: Evidence
    chosen: Candidate | None
    indicators: tuple[IndicatorPrediction, ...]
    indicator: IndicatorPrediction | None
    whole: bool
    settings: Mapping[str, Scalar]
    packages: tuple[PackageChoice, ...]
    candidates: tuple[CandidateFigures, ...]
    vulnerable: tuple[Advisory, ...] | None
    excluded: tuple[str, ...]
    known_failures: tuple[Observation, ...]
    lock: Lock
    requirements: str

    @property
    def decided(self) -> bool:
        """Whether figures of the workload decided it: for performance, a comparison with another stack."""
        if self.chosen is None or self.indicator is not None:
            return False
        return self.goal == "stable" or self.evidence.compared

    def document(self) -> dict[str, Any]:
        """The advice with its reasons and both files."""
        from assay.stacks.indicators import prediction_document
        from assay.stacks.known import hardware_document, observation_document, stack_document

        evidence, series = self.evidence, self.evidence.series
        return {
            "schema": "assay.stack-advice/1",
            "goal": self.goal,
            "decided": self.decided,
            "hardware": hardware_document(self.hardware),
            "chosen": None if self.chosen is None else self.chosen.stack.digest,
            "whole": self.whole,
            "settings": dict(self.settings),
            "packages": [asdict(package) for package in self.packages],
            "workload": None if series is None else series.workload.workload,
            "metric": None if series is None else series.metric.name,
            "series": None if series is None else series.title,
            "indicator": None if self.indicator is None else prediction_document(self.indicator),
            "indicators": [prediction_document(indicator) for indicator in self.indicators],
            "candidates": [_candidate_as_data(candidate) for candidate in self.candidates],
            "newest_measured": evidence.latest,
            "not_used": {"other_hardware": evidence.foreign, "stale": evidence.stale, "busy": evidence.busy},
            "broken": [
                {"stack": stack_document(failure.stack), **observation_document(failure)}
                for failure in evidence.broken
            ],
            "known_failures": [observation_document(failure) for failure in self.known_failures],
            "vulnerable": None
            if self.vulnerable is None
            else [asdict(advisory) for advisory in self.vulnerable],
            "excluded": list(self.excluded),
            "pylock": self.lock.pylock,
            "requirements": self.requirements,
        }


def advise_stack(
    spec: str | Sequence[str],
    *,
    goal: Goal = "performance",
    workload: str | None = None,
    hardware: str | None = None,
    python: str | None = None,
    platform: str | None = None,
    advisories: str | PathLike[str] | None = None,
    max_age_s: float = DEFAULT_MAX_AGE_S,
    margin: str | float | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StackAdvice:
    """Which versions to install, like `assay stack advise SPEC`.

    spec        files (requirements.txt, pyproject.toml) or requirements, like `torch>=2.8`
    goal        performance, stable, latest, testing or security
    workload    whose figures decide; None: the one with the most observations
    hardware    the beginning of a hardware class's digest; None: this machine's
    python      of the target, like 3.12; None: this one
    platform    of the target, as uv names it; None: this one
    advisories  a database in the OSV format: zip, folder or file; or `index`: what the package index says
    max_age_s   older observations don't decide

    Raises InputError, with uv's reason first, if the requirements can't be resolved; HostError if uv is
    missing or the package index can't be reached.
    """
    from assay.stacks.uv import Target, requirements_of, resolve, with_hashes

    specification = [spec] if isinstance(spec, str) else list(spec)
    requirements = requirements_of(specification)
    database = _database(advisories)
    _check(goal, workload, database)
    target = Target(python, platform, prereleases=goal == "testing")
    latest = resolve(specification, target)
    knowledge = _known(runs_directory(runs), progress)
    machine = _hardware(knowledge, hardware)
    question = _Question(
        knowledge.observations,
        requirements,
        machine,
        python or _python_here(),
        time.time() - max_age_s,
        latest.versions,
        DEFAULT_MARGIN if margin is None else margin_of(margin),
    )
    evidence, indicators, indicator = question.answer(workload, goal)
    chosen = _pick(evidence, goal)
    lock, whole = latest, False
    excluded: tuple[str, ...] = ()
    if chosen is not None:
        lock, whole = _lock_of(specification, target, chosen, requirements)
    elif goal == "security" and database is not None:
        lock, excluded = _without_vulnerable(specification, target, latest, database)
    return StackAdvice(
        goal=goal,
        hardware=machine,
        evidence=evidence,
        chosen=chosen,
        indicators=indicators,
        indicator=indicator,
        whole=whole,
        settings=_variables(chosen, machine),
        packages=_choices(lock, requirements, chosen),
        candidates=_figures(specification, target, evidence, requirements, database),
        vulnerable=None if database is None else tuple(database.affecting(lock.versions)),
        excluded=excluded,
        known_failures=_failures(knowledge, lock, requirements, machine),
        lock=lock,
        requirements=with_hashes(lock, target),
    )


def _check(goal: str, workload: str | None, database: AdvisorySource | None) -> None:
    from assay.stacks.advice import GOALS
    from assay.stacks.indicators import INDICATORS

    if goal not in GOALS:
        raise InputError(f"{goal!r} is not a goal; choose from {', '.join(GOALS)}")
    if goal == "security" and database is None:
        raise InputError("the goal security needs a database of advisories: --advisories all.zip, or index")
    if workload == INDICATORS:
        raise InputError(
            f"{INDICATORS} is not a workload that advice is for; name the workload that you run, and "
            "indicators that predict it are used"
        )


def _pick(evidence: Evidence, goal: Goal) -> Candidate | None:
    from assay.stacks.advice import pick

    return pick(evidence, goal) if goal in ("performance", "stable") else None


@dataclass(frozen=True)
class _Question:
    """What advice is asked for, and what is known: the arguments of `gather`."""

    observed: Sequence[Observation]
    requirements: Sequence[Requirement]
    hardware: HardwareClass
    python: str
    since: float
    latest: Mapping[str, str]
    margin: float

    def answer(
        self, workload: str | None, goal: Goal
    ) -> tuple[Evidence, tuple[IndicatorPrediction, ...], IndicatorPrediction | None]:
        """The evidence; how well indicators predict the workload; the one that the evidence is of, if one is.

        Indicators speak only for performance, and only where the workload's figures decide nothing.
        """
        from assay.stacks.advice import deciding_series, indicators_of

        series = deciding_series(
            self.observed,
            self.requirements,
            self.hardware,
            python=self.python,
            since=self.since,
            workload=workload,
        )
        evidence = self._evidence(series)
        indicators = indicators_of(self.observed, series, self.since)
        if goal == "performance" and not evidence.compared:
            for prediction in indicators:
                predicted = self._evidence(prediction.indicator) if prediction.predicts else None
                if predicted is not None and predicted.compared:
                    return predicted, indicators, prediction
        return evidence, indicators, None

    def _evidence(self, deciding: MetricSeries | None) -> Evidence:
        from assay.stacks.advice import gather

        return gather(
            self.observed,
            self.requirements,
            self.hardware,
            python=self.python,
            since=self.since,
            latest=self.latest,
            margin=self.margin,
            deciding=deciding,
        )


def _known(runs_dir: Path, progress: Callable[[int, int], None] | None) -> Knowledge:
    """What is known; nothing if there are no runs yet, which the advice then says."""
    from assay.stacks.knowledge import Knowledge
    from assay.stacks.storage import has_more_than_runs

    if not (has_runs(runs=runs_dir) or has_more_than_runs(runs_dir)):
        return Knowledge((), {})
    return known(runs_dir, progress)


def _database(source: str | PathLike[str] | None) -> AdvisorySource | None:
    from assay.stacks.advisories import AdvisoryDatabase, IndexAdvisories

    if source == INDEX:
        return IndexAdvisories(os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or _PYPI)
    return None if source is None else AdvisoryDatabase.read(Path(source))


def _hardware(knowledge: Knowledge, prefix: str | None) -> HardwareClass:
    if prefix is None:
        from assay.stacks.known import hardware_here

        return hardware_here()
    classes = {observation.hardware.digest: observation.hardware for observation in knowledge.observations}
    matching = [hardware_class for digest, hardware_class in classes.items() if digest.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    listed = (
        "; ".join(f"{digest[:8]} {hardware_class}" for digest, hardware_class in sorted(classes.items()))
        or "none"
    )
    raise InputError(f"{prefix}: names {len(matching)} hardware classes; those observed: {listed}")


def _python_here() -> str:
    import platform

    return platform.python_version()


def _lock_of(
    specification: Sequence[str], target: Target, chosen: Candidate, requirements: Sequence[Requirement]
) -> tuple[Lock, bool]:
    """The chosen stack's lock: every package as observed, or only the required ones if that has no solution.

    Raises InputError, with uv's reason, if not even these can.
    """
    from packaging.utils import canonicalize_name

    from assay.stacks.uv import resolve

    packages = chosen.stack.packages
    try:
        lock = resolve(specification, target, (f"{name}=={version}" for name, version in packages.items()))
    except InputError:
        named = [canonicalize_name(requirement.name) for requirement in requirements]
        return resolve(specification, target, (f"{name}=={packages[name]}" for name in named)), False
    return lock, all(packages.get(name) == version for name, version in lock.versions.items())


def _without_vulnerable(
    specification: Sequence[str], target: Target, latest: Lock, database: AdvisorySource
) -> tuple[Lock, tuple[str, ...]]:
    """The newest versions without a known vulnerability. Raises InputError if there are none."""
    from assay.stacks.uv import resolve

    lock, excluded = latest, dict[str, None]()
    while vulnerable := database.affecting(lock.versions):
        excluded.update(dict.fromkeys(f"{advisory.package}!={advisory.version}" for advisory in vulnerable))
        if len(excluded) > _MOST_EXCLUDED:
            names = ", ".join(sorted({advisory.package for advisory in vulnerable}))
            raise InputError(f"the {_MOST_EXCLUDED} newest versions are vulnerable: {names}")
        lock = resolve(specification, target, excluded)
    return lock, tuple(excluded)


def _variables(chosen: Candidate | None, hardware: HardwareClass) -> dict[str, Scalar]:
    """The variables to set: not the thread count that a launcher sets for the CPUs if nobody chooses one."""
    settings = {} if chosen is None else chosen.stack.settings
    variables = {name.removeprefix("env."): v for name, v in settings.items() if name.startswith("env.")}
    if chosen is not None and str(variables.get(_THREADS)) == _usual_threads(chosen, hardware):
        del variables[_THREADS]
    return variables


def _usual_threads(chosen: Candidate, hardware: HardwareClass) -> str | None:
    """CPUs divided by the ranks of a node; None if the CPUs are unknown."""
    from assay.records import Shape

    workload = chosen.observations[0].workload
    if hardware.cpus is None or workload is None:
        return None
    shape = Shape.parse(workload.shape)
    return str(max(1, int(hardware.cpus // (shape.ranks // (shape.nodes or 1)))))


def _choices(
    lock: Lock, requirements: Sequence[Requirement], chosen: Candidate | None
) -> tuple[PackageChoice, ...]:
    from packaging.utils import canonicalize_name

    named = {canonicalize_name(requirement.name) for requirement in requirements}
    observed = {} if chosen is None else chosen.stack.packages
    return tuple(
        PackageChoice(
            package.name, package.version, observed.get(package.name) == package.version, package.yanked
        )
        for package in lock.packages
        if package.name in named or package.yanked is not None
    )


def _figures(
    specification: Sequence[str],
    target: Target,
    evidence: Evidence,
    requirements: Sequence[Requirement],
    database: AdvisorySource | None,
) -> tuple[CandidateFigures, ...]:
    """The candidates next to the goals that compete; size and age are unknown if one can't be resolved."""
    from assay.stacks.advice import front

    locks: dict[str, Lock | None] = {}
    for candidate in evidence.candidates[:_MOST_RESOLVED]:
        try:
            locks[candidate.stack.digest] = _lock_of(specification, target, candidate, requirements)[0]
        except InputError:
            locks[candidate.stack.digest] = None
    sizes = {digest: lock.size_bytes if lock else None for digest, lock in locks.items()}
    ages = {digest: _newest(lock) for digest, lock in locks.items()}
    best = front(evidence, sizes, ages)
    return tuple(
        CandidateFigures(
            candidate,
            sizes.get(candidate.stack.digest),
            ages.get(candidate.stack.digest),
            len(database.affecting(lock.versions))
            if database and (lock := locks.get(candidate.stack.digest))
            else None,
            candidate.stack.digest in best,
        )
        for candidate in evidence.candidates
    )


def _newest(lock: Lock | None) -> float | None:
    times = (
        [package.uploaded_at for package in lock.packages if package.uploaded_at is not None] if lock else []
    )
    return max(times, default=None)


def _failures(
    knowledge: Knowledge, lock: Lock, requirements: Sequence[Requirement], machine: HardwareClass
) -> tuple[Observation, ...]:
    from packaging.utils import canonicalize_name

    named = {
        canonicalize_name(requirement.name): lock.versions.get(canonicalize_name(requirement.name))
        for requirement in requirements
    }
    return tuple(
        observation
        for observation in knowledge.observations
        if observation.failure is not None
        and observation.hardware.digest == machine.digest
        and all(observation.stack.packages.get(name) == version for name, version in named.items())
    )


def _candidate_as_data(figures: CandidateFigures) -> dict[str, Any]:
    from assay.stacks.known import observation_document, stack_document

    candidate = figures.candidate
    return {
        "stack": stack_document(candidate.stack),
        "name": candidate.name,
        "verdict": candidate.verdict,
        "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
        "through": list(candidate.through),
        "level": asdict(candidate.level),
        "observations": [observation_document(seen) for seen in candidate.observations],
        "failures": [observation_document(seen) for seen in candidate.failures],
        "size_bytes": figures.size_bytes,
        "newest_at": figures.newest_at,
        "memory": None if candidate.memory is None else asdict(candidate.memory),
        "advisories": figures.advisories,
        "on_front": figures.on_front,
    }

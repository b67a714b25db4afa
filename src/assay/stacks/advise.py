"""Which versions to install for a goal, locked, each justified by what was observed."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay.durable import deliver, make_directory
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.questions.browsing import has_runs
from assay.questions.compare import Margin
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.values import Seconds
from assay.records import DEFAULT_MARGIN, Scalar, Shape, to_plain
from assay.stacks.advice import GOALS, AdviceRequest, Candidate, Evidence, Goal, front, pick
from assay.stacks.advisories import Advisory, AdvisoryDatabase, AdvisorySource, IndexAdvisories
from assay.stacks.containerfile import ContainerFile, containerfile_of_lock
from assay.stacks.diff import TO_MEASURE
from assay.stacks.indicators import (
    INDICATORS,
    IndicatorPrediction,
    correlation,
    prediction_lines,
)
from assay.stacks.knowledge import Knowledge
from assay.stacks.known import (
    Progress,
    day,
    doubt_lines,
    failure_lines,
    hardware_document,
    hardware_here,
    known,
    observation_document,
    reading,
    session_names,
    some_of,
    stack_document,
)
from assay.stacks.stack import HardwareClass, Observation
from assay.stacks.storage import has_more_than_runs
from assay.stacks.uv import Lock, Target, requirements_of, resolve, with_hashes
from assay.units import counted, human, margin_of
from assay.view import figures
from assay.view.blocks import Block, Paragraph
from assay.view.sentences.sentences import evidence, needed, questions

DEFAULT_MAX_AGE_S: Final = 365 * 86400.0
INDEX: Final = "index"
"""Instead of a database of advisories: what the package index says."""
_FILES: Final = ("pylock.toml", "requirements.txt")
_MOST_SHOWN: Final = 8
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

    def document(self) -> dict[str, Any]:
        """The candidate with what was observed of it."""
        candidate = self.candidate
        return {
            "stack": stack_document(candidate.stack),
            "name": candidate.name,
            "verdict": candidate.verdict,
            "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
            "through": list(candidate.through),
            "level": asdict(candidate.level),
            "observations": [observation_document(seen) for seen in candidate.observations],
            "failures": [observation_document(seen) for seen in candidate.failures],
            "size_bytes": self.size_bytes,
            "newest_at": self.newest_at,
            "memory": None if candidate.memory is None else asdict(candidate.memory),
            "advisories": self.advisories,
            "on_front": self.on_front,
        }


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
class StackAdvice(Answer):
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

    @property
    def exit_code(self) -> int:
        """1 if the versions are known to fail or to be vulnerable; 3 if no figure decides; else 0."""
        if self.known_failures or self.vulnerable:
            return EXIT_WORSE
        return EXIT_UNDECIDED if self.goal in ("performance", "stable") and not self.decided else EXIT_OK

    def view(self) -> Iterator[Block]:
        """What to install, why, and what is known to be unsafe."""
        yield from map(Paragraph, _describe_advice(self))

    def document(self) -> dict[str, Any]:
        """The advice with its reasons and both files."""
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
            "indicator": None if self.indicator is None else self.indicator.document(),
            "indicators": [indicator.document() for indicator in self.indicators],
            "candidates": [candidate.document() for candidate in self.candidates],
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


def _check(goal: str, workload: str | None, database: AdvisorySource | None) -> None:
    if goal not in GOALS:
        raise InputError(f"{goal!r} is not a goal; choose from {', '.join(GOALS)}")
    if goal == "security" and database is None:
        raise InputError("the goal security needs a database of advisories: --advisories all.zip, or index")
    if workload == INDICATORS:
        raise InputError(
            f"{INDICATORS} is not a workload that advice is for; name the workload that you run, and "
            "indicators that predict it are used"
        )


def _known(runs_dir: Path, progress: Progress | None) -> Knowledge:
    """What is known; nothing if there are no runs yet, which the advice then says."""
    if not (has_runs(runs=runs_dir) or has_more_than_runs(runs_dir)):
        return Knowledge((), {})
    return known(runs_dir, progress)


def _database(source: str | PathLike[str] | None) -> AdvisorySource | None:
    if source == INDEX:
        return IndexAdvisories(os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or _PYPI)
    return None if source is None else AdvisoryDatabase(Path(source))


def _hardware(knowledge: Knowledge, prefix: str | None) -> HardwareClass:
    if prefix is None:
        return hardware_here()
    classes = {observation.hardware.digest: observation.hardware for observation in knowledge.observations}
    matching = [hardware for digest, hardware in classes.items() if digest.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    listed = "; ".join(f"{digest[:8]} {hardware}" for digest, hardware in sorted(classes.items()))
    raise InputError(f"{prefix}: names {len(matching)} hardware classes; those observed: {listed or 'none'}")


def _lock_of(
    specification: Sequence[str], target: Target, chosen: Candidate, requirements: Sequence[Requirement]
) -> tuple[Lock, bool]:
    """The chosen stack's lock: every package as observed, or only the required ones if that has no solution.

    Raises InputError, with uv's reason, if not even these can.
    """
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
    workload = chosen.observations[0].workload
    if hardware.cpus is None or workload is None:
        return None
    shape = Shape.parse(workload.shape)
    return str(max(1, int(hardware.cpus // (shape.ranks // (shape.nodes or 1)))))


def _choices(
    lock: Lock, requirements: Sequence[Requirement], chosen: Candidate | None
) -> tuple[PackageChoice, ...]:

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
    locks: dict[str, Lock] = {}
    for candidate in evidence.candidates[:_MOST_RESOLVED]:
        with suppress(InputError):
            locks[candidate.stack.digest] = _lock_of(specification, target, candidate, requirements)[0]
    sizes = {digest: lock.size_bytes for digest, lock in locks.items()}
    ages = {digest: _newest(lock) for digest, lock in locks.items()}
    vulnerable = {
        digest: len(database.affecting(lock.versions)) for digest, lock in locks.items() if database
    }
    best = front(evidence, sizes, ages)
    return tuple(
        CandidateFigures(
            candidate, sizes.get(digest), ages.get(digest), vulnerable.get(digest), digest in best
        )
        for candidate in evidence.candidates
        for digest in [candidate.stack.digest]
    )


def _newest(lock: Lock) -> float | None:
    return max((p.uploaded_at for p in lock.packages if p.uploaded_at is not None), default=None)


def _failures(
    knowledge: Knowledge, lock: Lock, requirements: Sequence[Requirement], machine: HardwareClass
) -> tuple[Observation, ...]:
    """What is known to fail on this hardware, of stacks with the required packages at these versions."""
    names = [canonicalize_name(requirement.name) for requirement in requirements]
    named = {name: lock.versions.get(name) for name in names}
    return tuple(
        seen
        for seen in knowledge.observations
        if seen.failure is not None
        and seen.hardware.digest == machine.digest
        and all(seen.stack.packages.get(name) == version for name, version in named.items())
    )


@question
class AdviseStack(Question):
    """Lock the versions to install for a goal, with the reasons.

    SPEC is a requirements.txt, a pyproject.toml, or requirements such as 'torch>=2.8'. uv resolves them.
    Observed stacks that meet them on this hardware are compared, and only a verdict decides:

    \b
    performance  the fastest of those that are faster than the reference, else the reference: the
                 newest versions if they were measured, else the stack that was measured most
    stable       of those that worked in 2 sessions or more and are not slower, the one observed most
    latest       the newest versions; known failures are shown
    testing      the newest versions, pre-releases included
    security     the newest versions without a known vulnerability; needs --advisories

    \b
    Examples:
      assay stack advise 'torch>=2.8' numpy -o locked
      assay stack advise pyproject.toml --goal security --advisories all.zip -o locked
      assay stack advise pyproject.toml --python 3.12 -o locked --containerfile

    \b
    Exit codes: 0 advised, also if the newest versions were not measured, which the answer says and
    newest_measured in --json; 1 advised, although it has a known failure or vulnerability; 3 no figure of
    the workload decides: the versions are what an indicator predicts, or uv's choice; 4 no solution;
    5 no uv, or the index can't be reached.
    """

    explains_file = True

    spec: str | Sequence[str] | tuple[str, ...] = argument()
    goal: Goal = option("What to choose for. [default: performance]", default="performance")
    workload: str | None = option(
        "Whose figures decide. [default: the one observed most]", default=None, metavar="NAME"
    )
    hardware: str | None = option(
        "Class of hardware, as `list --json` has it. [default: this machine's]",
        default=None,
        metavar="DIGEST",
    )
    python: str | None = option(
        "Python of the target, such as 3.12. [default: this one]", default=None, metavar="VERSION"
    )
    platform: str | None = option(
        "Platform of the target, as uv names it: x86_64-manylinux_2_28.", default=None, metavar="NAME"
    )
    advisories: str | PathLike[str] | None = option(
        "Known vulnerabilities in the OSV format: all.zip, a folder, or a file. `index` asks uv's index.",
        default=None,
        metavar="PATH|index",
        local=True,
    )
    max_age_s: Seconds = option(
        "Older observations are counted but don't decide. [default: 365d]",
        default=DEFAULT_MAX_AGE_S,
        names=("--max-age",),
    )
    margin: Margin | None = option("Difference that counts as equal, such as 2%. [default: 2%]", default=None)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)
    progress: Progress | None = progress_line(reading, default=None)
    output: str | None = option(
        "Directory for pylock.toml and requirements.txt. [default: requirements.txt on standard output]",
        default=None,
        metavar="DIRECTORY",
        names=("-o", "--output"),
        output=True,
    )
    containerfile: bool = option(
        "Also write a Containerfile with exactly this lock; `assay stack build` builds it.",
        default=False,
        output=True,
    )
    base: str | None = option(
        "Base of the Containerfile. [default: the first one with this Python]",
        default=None,
        metavar="NAME",
        output=True,
    )

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        if (self.containerfile and self.output is None) or (self.base and not self.containerfile):
            raise ValueError("--containerfile needs -o DIRECTORY, and --base needs --containerfile")

    def answer(self) -> StackAdvice:
        """Which versions to install.

        Raises InputError, with uv's reason first, if the requirements can't be resolved; HostError if uv is
        missing or the package index can't be reached.
        """
        specification = [self.spec] if isinstance(self.spec, str) else list(self.spec)
        requirements, goal = requirements_of(specification), self.goal
        database = _database(self.advisories)
        _check(goal, self.workload, database)
        target = Target(self.python, self.platform, prereleases=goal == "testing")
        latest = resolve(specification, target)
        knowledge = _known(runs_directory(self.runs), self.progress)
        machine = _hardware(knowledge, self.hardware)
        python = self.python or platform.python_version()
        margin = DEFAULT_MARGIN if self.margin is None else margin_of(self.margin)
        since, observed = time.time() - self.max_age_s, knowledge.observations
        request = AdviceRequest(observed, requirements, machine, python, since, latest.versions, margin)
        evidence, indicators, indicator = request.evidence(self.workload, goal)
        chosen = pick(evidence, goal)
        whole = False
        excluded: tuple[str, ...] = ()
        if chosen is not None:
            lock, whole = _lock_of(specification, target, chosen, requirements)
        elif goal == "security" and database is not None:
            lock, excluded = _without_vulnerable(specification, target, latest, database)
        else:
            lock = latest
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

    def write(self, answer: StackAdvice) -> StackAdvice | bytes:
        """The lock as files; without a directory, its requirements.txt is what the command prints."""
        if self.output is None:
            return answer.requirements.encode()
        directory = Path(self.output)
        files = dict(zip(_FILES, (answer.lock.pylock, answer.requirements), strict=True))
        if self.containerfile:
            lock = str(directory / _FILES[0])
            files = {"Containerfile": advised_containerfile(answer, lock, base=self.base).text, **files}
        make_directory(directory)
        for name, text in files.items():
            deliver(directory / name, text.encode(), option="-o")
        return answer


advise_stack = function(AdviseStack, AdviseStack.answer)


def advised_containerfile(advice: StackAdvice, lock: str, *, base: str | None = None) -> ContainerFile:
    """The container file of an advised stack, with the variables that it was measured with.

    lock  path of its pylock.toml, for the file's heading
    """
    settings = {name: str(value) for name, value in advice.settings.items()}

    return containerfile_of_lock(advice.lock.pylock, lock, "command", base, False, settings)


def _describe_advice(advice: StackAdvice) -> Iterator[str]:
    yield _headline(advice)
    for choice in advice.packages:
        why = "as measured" if choice.measured else "uv's choice, by no measurement"
        withdrawn = (
            f"; ! withdrawn by its author (yanked): {choice.yanked}" if choice.yanked is not None else ""
        )
        yield f"  {choice.name} {choice.version}: {why}{withdrawn}"
    yield from (f"  set {name}={value}, as it was measured" for name, value in advice.settings.items())
    if advice.chosen is not None and not advice.whole:
        yield "  ! only the required packages are as measured: not every other one can be installed so"
    yield ""
    yield from _reasons(advice)
    yield from _safety(advice)


def _headline(advice: StackAdvice) -> str:
    versions = ", ".join(f"{package.name} {package.version}" for package in advice.packages)
    if advice.indicator is not None:
        return (
            f"Predicted by an indicator, not measured: for {advice.goal} on {advice.hardware}, "
            f"install {versions}."
        )
    if advice.chosen is not None and not advice.decided:
        return (
            f"Measured, but not shown to be faster or slower than any other on {advice.hardware}: {versions}."
        )
    if advice.chosen is not None:
        return f"For {advice.goal} on {advice.hardware}, install {versions}."
    match advice.goal:
        case "performance" | "stable":
            what = "No measurement decides" if advice.evidence.candidates else "Nothing measured"
            return f"{what} on {advice.hardware}: uv's newest versions, not advice for {advice.goal}."
        case "security":
            return f"The newest versions without a known vulnerability: {versions}."
        case _:
            return f"The newest versions: {versions}."


def _reasons(advice: StackAdvice) -> Iterator[str]:
    evidence = advice.evidence
    if evidence.candidates:
        title = "" if evidence.series is None else evidence.series.title
        yield f"Measured with {title}; * no other is better in everything:"
        for candidate in advice.candidates[:_MOST_SHOWN]:
            yield from _candidate_lines(candidate, chosen=advice.chosen)
        more = len(advice.candidates) - _MOST_SHOWN
        if more > 0:
            yield f"  and {more} more: --json has all"
        if not evidence.latest and advice.goal == "performance":
            yield "The newest versions were not measured here: whether they are faster is unknown."
    else:
        yield "No observation of such a stack on this hardware."
    if evidence.foreign or evidence.stale or evidence.busy:
        left = (
            (evidence.foreign, "on other hardware"),
            (evidence.stale, "older than --max-age"),
            (evidence.busy, "while others used the CPUs"),
        )
        counts = " and ".join(f"{counted(n, 'observation')} {why}" for n, why in left if n)
        yield f"Not used: {counts}."
    for failure in evidence.broken[:_MOST_SHOWN]:
        yield "Known to fail, although the requirements allow it:"
        yield from _indented(failure)
    yield from _indicator_lines(advice)
    if not advice.decided:
        yield TO_MEASURE


def _indicator_lines(advice: StackAdvice) -> Iterator[str]:
    """Which indicator was used, and why the others weren't."""
    if advice.indicator is not None:
        prediction = advice.indicator
        yield f"{prediction.indicator.title} predicts {prediction.workload.title}: {correlation(prediction)}."
    elif advice.indicators and not advice.decided:
        yield f"Indicators of {advice.indicators[0].workload.title}:"
        yield from (f"  {line}" for line in prediction_lines(advice.indicators[:_MOST_SHOWN]))


def _candidate_lines(candidate_figures: CandidateFigures, chosen: Candidate | None) -> Iterator[str]:
    candidate = candidate_figures.candidate
    mark = "→" if chosen is not None and candidate.stack.digest == chosen.stack.digest else " "
    estimate = candidate.level.estimate
    unit, (value,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    size = (
        "size unknown"
        if candidate_figures.size_bytes is None
        else human(float(candidate_figures.size_bytes), "B")
    )
    newest = (
        "age unknown"
        if candidate_figures.newest_at is None
        else f"newest package of {day(candidate_figures.newest_at)}"
    )
    parts = [f"{value} {unit}", size, newest, _memory(candidate)]
    if candidate_figures.advisories is not None:
        parts.append(counted(candidate_figures.advisories, "advisory").replace("advisorys", "advisories"))
    yield f"{mark}{'*' if candidate_figures.on_front else ' '} {candidate.name}: {'; '.join(parts)}"
    when = f"last observed {day(candidate.newest)}"
    sessions = f"{counted(candidate.level.runs, 'run')} in {counted(candidate.level.sessions, 'session')}"
    if candidate.comparison is None:
        yield f"     the reference; {sessions}, {when}"
    else:
        c = candidate.comparison
        (question,) = questions([c])
        verdict = f"{c.verdict} than the reference" if c.verdict in ("faster", "slower") else c.verdict
        yield f"     {verdict}: {figures.compared(c)}; {evidence(question)}; {when}"
        if c.verdict == "undecided" and c.ratio.low is not None:
            yield f"     why: {c.reason}"
            yield from (f"     {hint}" for hint in [needed([c])] if hint)
        if candidate.through:
            yield f"     never measured in one session: compared through {some_of(candidate.through)}"
        yield from doubt_lines(c.doubts, "       ")
    yield f"     sessions: {session_names(candidate.observations)}"
    for failure in candidate.failures[:2]:
        yield from _indented(failure)


def _memory(candidate: Candidate) -> str:
    if candidate.memory is None:
        return "memory not measured"
    return f"largest process {human(candidate.memory.estimate.value, 'B')}"


def _safety(advice: StackAdvice) -> Iterator[str]:
    for failure in advice.known_failures:
        yield "! These versions are known to fail here:"
        yield from _indented(failure)
    if advice.excluded:
        yield f"Excluded as vulnerable: {', '.join(advice.excluded)}."
    if advice.vulnerable is None:
        yield "Vulnerabilities: not checked; --advisories names a database, or index."
        return
    for advisory in advice.vulnerable:
        fixed = f"; fixed in {', '.join(advisory.fixed)}" if advisory.fixed else ""
        names = ", ".join((advisory.id, *advisory.aliases))
        yield f"! vulnerable: {advisory.package} {advisory.version}: {names}: {advisory.summary}{fixed}"
    if not advice.vulnerable:
        yield "Vulnerabilities: none known."


def _indented(failure: Observation) -> Iterator[str]:
    yield from (f"     {line}" for line in failure_lines(failure))

"""Which change between two stacks made it slower or made it fail: bisected under noise, resumable."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from assay import launch
from assay.durable import locked, make_directory
from assay.errors import InputError, Problem
from assay.questions.compare import Margin
from assay.questions.evidence import reindex, runs_directory
from assay.questions.question import (
    QUIET,
    RUNS,
    Question,
    Reads,
    Reference,
    argument,
    option,
    question,
    supplied,
)
from assay.questions.values import PresentFile, PresentFolder, Seconds, Variables, within
from assay.records import DEFAULT_MARGIN, digest_of
from assay.run.progress import Silence, Tell
from assay.stacks import uv
from assay.stacks.bisect_bench import BAD, GOOD, StackBench
from assay.stacks.bisect_lines import (
    PYTHON,
    StackEnd,
    StackLine,
    WheelSources,
    changes_line,
    dates_line,
    packages_of_recipe,
    versions_line,
)
from assay.stacks.bisect_result import BisectedLine, BisectionResult, BisectPlan
from assay.stacks.bisect_search import BlocksOutcome, Measure, Search, Settings
from assay.stacks.environments import Workshop
from assay.stacks.explore_spec import SET_HERE
from assay.stacks.known import digest_named, known
from assay.stacks.measuring import ABOUT_KEEP, ABOUT_MAX_TIME, MeasuredWork, Measuring
from assay.stacks.stack import Change, Stack, changes
from assay.stacks.storage import Journal, bisections_dir
from assay.stacks.uv import Interpreter, UvError, is_requirement_file, pinned_packages, requirements_of
from assay.suite import document, systems_of
from assay.suite.findings import unknown
from assay.suite.load import THIS_MACHINE, read_file
from assay.suite.model import NAME_PATTERN
from assay.units import margin_of

_SEED: Final = 1
_BUILD_TIMEOUT_S: Final = 600.0
Day = Annotated[date, Reads(date.fromisoformat, "DAY")]


@question
class BisectStacks(Question):
    """Find the change that made the stack BAD slower than GOOD, or made it fail.

    GOOD and BAD each name a stack: a file with exact versions (pylock.toml, requirements.txt), or one that
    runs have observed, by its digest or by those runs. uv builds stacks between the two. Each is measured in
    the same shuffled blocks as both, until one change is responsible with the stated probability. Stacks
    without and with it are then built again several times, to confirm that it is not the build. If that
    change alone is not enough, the others that it needs are found too. Then the versions of the package
    between its two are bisected.

    A stopped bisection resumes with the same command.

    \b
    Examples:
      assay stack bisect good.txt bad.txt --measure suite.yaml
      assay stack bisect good.txt bad.txt --measure suite.yaml --plan
      assay stack bisect requirements.txt --between 2026-01-01 2026-03-01 --measure suite.yaml

    \b
    Exit codes: 0 the change is found; 3 none can be named, or others used the CPUs for too long;
    4 the stacks can't be bisected; 6 another process works on this bisection;
    130 stopped; run again to resume.
    """

    good: str = argument()
    measure: PresentFile = option("A suite's file: what each stack runs.", metavar="SUITE")
    bad: str | None = argument(default=None)
    between: tuple[Day, Day] | None = option(
        "Bisect the days on which GOOD, any requirement file, resolves to other versions.",
        default=None,
        metavar="DAY DAY",
    )
    error: Annotated[float, within(0.001, 0.2)] = option(
        "Probability with which a named change may be wrong.", default=0.05
    )
    margin: Margin | None = option(
        "Difference that counts as equal, such as 2%. [default: the suite's, or 2%]", default=None
    )
    max_repeats: Annotated[int, within(3, 200)] = option(
        "Most blocks in which the good and the bad stack are compared.", default=20
    )
    max_stacks: Annotated[int, within(2, 10_000)] = option("Stacks to build at most.", default=100)
    max_time_s: Seconds | None = option(ABOUT_MAX_TIME, default=None, names=("--max-time",))
    good_python: str | None = option(
        "Version or path. [default: the stack's, or Assay's]", default=None, metavar="PYTHON"
    )
    bad_python: str | None = option("The same of the bad stack.", default=None, metavar="PYTHON")
    good_env: Variables | None = option("A variable of the good stack; may be repeated.", default=None)
    bad_env: Variables | None = option("The same of the bad stack.", default=None)
    wheels: tuple[PresentFolder, ...] = option(
        "A directory with wheels of your own, besides the index.", default=()
    )
    offline: bool = option("Use no index, only --wheels.", default=False)
    imports: tuple[str, ...] = option(
        "A module that a stack must be able to import.", default=(), names=("--import",), metavar="MODULE"
    )
    system: str = option("Where to run: a system of --systems.", default="local", metavar="NAME")
    systems: PresentFile | None = option(
        "File with that system. [default: systems.yaml next to the suite]", default=None
    )
    name: str | None = option(
        "Name of the bisection, and of the suite that its sessions are of.", default=None
    )
    plan_only: bool = option("Show the plan, build nothing.", default=False, names=("--plan",))
    keep: bool = option(ABOUT_KEEP, default=False)
    quiet: bool = option(QUIET, default=False, output=True)
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Tell | None = supplied("sessions", default=None)
    say: Callable[[str], None] | None = supplied("lines", default=None)
    command_line: Sequence[str] = supplied("command line", default=())

    @property
    def width(self) -> float:
        """The share that counts as equal."""
        return DEFAULT_MARGIN if self.margin is None else margin_of(self.margin)

    def answer(self) -> BisectPlan | BisectionResult:
        """The changes that made the bad stack worse, or what would be bisected.

        Raises InputError for what can't be bisected as requested (with uv's reason), BusyError if another
        Assay process works on it, HostError if this machine can't continue, InterruptedRun after Ctrl-C.
        """
        runs_dir = runs_directory(self.runs).resolve()
        system = system_of(self)
        digest = digest_of_request(self, system)
        name = self.name or f"bisect-{digest[:8]}"
        if not re.fullmatch(NAME_PATTERN, name):
            raise InputError(f"--name: {name!r} must match {NAME_PATTERN}")
        work = work_of(Path(self.measure), name, self.width)
        folder = bisections_dir(runs_dir) / name
        make_directory(folder)
        with locked(folder / "lock", f"the bisection {name}"):
            journal = Journal.open(folder / "journal.jsonl")
            _begin(journal, digest, name, folder)
            workshop = Workshop(folder, _BUILD_TIMEOUT_S)
            try:
                return _Bisection(self, runs_dir, work, system, journal, workshop).run()
            finally:
                reindex(runs_dir)


def _begin(journal: Journal, digest: str, name: str, folder: Path) -> None:
    begun = next(journal.entries("begun"), None)
    if begun is None:
        journal.add("begun", digest=digest, at=time.time())
    elif begun["digest"] != digest:
        raise InputError(
            f"{name} was begun with other stacks or settings: give another --name, or remove {folder}"
        )


@dataclass
class _Bisection:
    """One call's work: all that it knows is in the journal, the locks and the run directories."""

    question: BisectStacks
    runs_dir: Path
    work: MeasuredWork
    system: Mapping[str, Any]
    journal: Journal
    workshop: Workshop
    benches: list[StackBench] = field(default_factory=list)

    def run(self) -> BisectPlan | BisectionResult:
        """The lines bisected, the coarsest first; or the plan, if only that is asked for."""
        say = self._say
        line, fixed = first_line(self.question, self.runs_dir, self.workshop, self.journal, say)
        at_least = max(len(line.names) - 1, 0).bit_length() + 2 * line.alone
        plan = BisectPlan(self.work.name, line.what, line.names, fixed, at_least, self.workshop.root)
        if self.question.plan_only:
            return plan
        for text in plan.lines:
            say(text)
        lines = [self._bisected(1, line)]
        while (finer := self._finer(line, lines[-1])) is not None:
            if isinstance(finer, str):
                lines[-1] = replace(lines[-1], then=finer)
                break
            line = finer
            lines.append(self._bisected(len(lines) + 1, line))
        sessions = tuple(name for bench in self.benches for name in bench.measuring.sessions)
        return BisectionResult(plan, tuple(lines), self._spent_s, self.question.error, sessions)

    def _say(self, text: str) -> None:
        if self.question.say is not None:
            self.question.say(text)

    def _finer(self, line: StackLine, bisected: BisectedLine) -> StackLine | str | None:
        """The line within what was found; why there is none, as text; or None if that needs no words."""
        culprits = bisected.search.culprits
        if bisected.search.ended != "found" or self._over:
            return None
        if line.difference is None:
            if line.what != "dates":
                return None
            cuts = culprits[0].changes[0], culprits[0].changes[-1] + 1
            return packages_line(self.question, line, cuts, self.workshop, self._say)
        if len(culprits) != 1 or len(culprits[0].changes) != 1:
            return "the versions between are searched only if one change is responsible by itself"
        (change,) = culprits[0].changes
        return versions_line(line.difference, change, culprits[0].stack, self.workshop)

    @property
    def _spent_s(self) -> float:
        return sum(bench.spent_s for bench in self.benches)

    @property
    def _over(self) -> bool:
        most_s = self.question.max_time_s
        late = most_s is not None and self._spent_s >= most_s
        return late or sum(len(bench.names) for bench in self.benches) >= self.question.max_stacks

    def _bisected(self, number: int, line: StackLine) -> BisectedLine:
        question, repeats = self.question, self.question.max_repeats
        settings = Settings(question.error, question.width, repeats, line.requires, line.alone)
        search = Search(tuple(range(len(line.names))), settings)
        progress = question.progress or Silence
        measuring = Measuring(self.work, self.runs_dir, progress, question.command_line, repeats)
        measuring.check(self.system)
        bench = StackBench(
            self.workshop, self.journal, number, line, self.system, search, measuring, self._say
        )
        self.benches.append(bench)
        for request in _driven(search, bench.answer):
            if self._over:
                break
            self._say(bench.about(request))
        if not question.keep:
            bench.clear()
        comparison = None
        if measuring.results:
            comparison, _ = measuring.compared(BAD, GOOD, repeats)
        return BisectedLine(
            line.what,
            line.names,
            search,
            comparison,
            len(bench.names) - len({GOOD, BAD} & set(bench.names.values())),
            tuple((bench.title(stack), why) for stack, why in bench.unbuildable.items()),
        )


def _driven(search: Search, answer: Callable[[Measure], BlocksOutcome]) -> Iterator[Measure]:
    """Each request of a search before it is answered; who stops iterating stops the search."""
    run = search.run()
    try:
        request = next(run)
        while True:
            yield request
            request = run.send(answer(request))
    except StopIteration:
        return


def system_of(request: BisectStacks) -> Mapping[str, Any]:
    """Where the stacks run, as systems.yaml has it.

    Raises InputError if there is no such system, or it is wrong.
    """
    systems = None if request.systems is None else Path(request.systems)
    file = read_file(Path(request.measure), systems)
    if request.system == THIS_MACHINE and request.systems is None:
        return {"launcher": THIS_MACHINE}
    usable, problems = systems_of(file, launch.SYSTEM_MODELS)
    own = [problem for problem in problems if request.system not in usable]
    if own:
        raise InputError(own)
    if request.system not in usable:
        raise InputError([Problem(file.where(), unknown("system", request.system, usable))])
    return dict(file.data.get(request.system) or {"launcher": THIS_MACHINE})


def digest_of_request(request: BisectStacks, system: Mapping[str, Any]) -> str:
    """What a bisection is resumed by: all that changes what would be measured, budgets left out."""
    pythons = request.good_python, request.bad_python
    contents = [_content(source) for source in (request.good, request.bad, str(request.measure)) if source]
    return digest_of(
        [
            contents,
            [str(date) for date in request.between or ()],
            list(pythons),
            [dict(variables or {}) for variables in (request.good_env, request.bad_env)],
            [str(folder) for folder in request.wheels],
            request.offline,
            list(request.imports),
            dict(system),
            [request.error, request.width, request.max_repeats],
        ]
    )


def _content(reference: str) -> str:
    path = Path(reference)
    return path.read_text("utf-8", "replace") if path.is_file() else reference


def work_of(path: Path, name: str, margin: float) -> MeasuredWork:
    """What a suite measures. Raises InputError if it is not a suite."""
    source = document.read(path)
    if source.problems or not isinstance(source.data, dict):
        raise InputError(list(source.problems) or [Problem(source.where(), "expected a suite: a mapping")])
    content = {key: value for key, value in source.data.items() if key not in SET_HERE}

    def where(*keys: str | int) -> str:
        return source.where(*(key for key in keys if key != "measure"))

    return MeasuredWork(name, content, path.absolute().parent, margin, _SEED, where)


def first_line(
    request: BisectStacks, runs_dir: Path, workshop: Workshop, journal: Journal, say: Callable[[str], None]
) -> tuple[StackLine, tuple[Change, ...]]:
    """The line to bisect first, and differences that can't be made here.

    Raises InputError if the stacks are equal, can't be resolved, or are not known.
    """
    sources = _sources(request)
    if request.between is not None:
        return _dates(request, sources, workshop, say), ()
    if request.bad is None:
        raise InputError("name the bad stack, or give --between DATE DATE")
    good, known_good = _end(request, runs_dir, 0)
    bad, known_bad = _end(request, runs_dir, 1)
    line = changes_line(good, bad, sources, workshop, journal, say)
    if not line.names:
        raise InputError(
            f"{request.good} and {request.bad} have the same packages, Python and settings: "
            "there is nothing to bisect"
        )
    return line, _fixed(known_good, known_bad)


def _sources(request: BisectStacks) -> WheelSources:
    return WheelSources(
        tuple(Path(folder).absolute() for folder in request.wheels), request.offline, request.imports
    )


def _fixed(good: Stack | None, bad: Stack | None) -> tuple[Change, ...]:
    """Differences of two observed stacks that packages, Python and variables don't make."""
    if good is None or bad is None:
        return ()
    return tuple(
        change
        for change in changes(good, bad)
        if change.kind == "build"
        or (change.kind == "system" and change.name != PYTHON)
        or (change.kind == "setting" and not change.name.startswith("env."))
    )


def _end(request: BisectStacks, runs_dir: Path, side: int) -> tuple[StackEnd, Stack | None]:
    """One of the two stacks; and as it was observed, if it was."""
    reference = str((request.good, request.bad)[side])
    version_or_path = (request.good_python, request.bad_python)[side]
    env = dict((request.good_env, request.bad_env)[side] or {})
    if is_requirement_file(Path(reference)):
        return StackEnd(pinned_packages(Path(reference)), _interpreter(version_or_path), env), None
    if Path(reference).suffix in (".txt", ".toml", ".in"):
        raise InputError(f"{reference}: no such file")
    stack = _observed(runs_dir, reference)
    python = version_or_path or str(stack.system.get(PYTHON) or "") or None
    return StackEnd(dict(stack.packages), _interpreter(python), _variables(stack, reference) | env), stack


def _observed(runs_dir: Path, reference: str) -> Stack:
    knowledge = known(runs_dir)
    digest = digest_named(runs_dir, knowledge, reference)
    return next(
        observation.stack for observation in knowledge.observations if observation.stack.digest == digest
    )


def _variables(stack: Stack, reference: str) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, value in stack.settings.items():
        if not name.startswith("env."):
            continue
        if value == "(redacted)":
            what = f"its variable {name[4:]} was not recorded, since it looks like a secret"
            raise InputError(f"{reference}: {what}; name a requirement file instead, and give --good-env")
        variables[name[4:]] = str(value)
    return variables


def _interpreter(version_or_path: str | None) -> Interpreter:
    if version_or_path is None:
        return Interpreter(".".join(map(str, sys.version_info[:3])), sys.executable)
    try:
        return uv.find_python(version_or_path)
    except UvError as error:
        raise InputError(
            f"{error.words}\nPython {version_or_path} is not on this machine, and none is downloaded; "
            "name another with --good-python and --bad-python"
        ) from error


def _dates(
    request: BisectStacks, sources: WheelSources, workshop: Workshop, say: Callable[[str], None]
) -> StackLine:
    if request.bad is not None or request.between is None:
        raise InputError("--between takes one requirement file, and no BAD")
    first, last = request.between
    if first >= last:
        raise InputError(f"--between {first} {last}: the first day must be before the second")
    line = dates_line(
        _requirements(Path(request.good)),
        _interpreter(request.good_python),
        (first, last),
        sources,
        request.good_env or {},
        workshop,
        lambda day: say(f"resolving as of {day}"),
    )
    if isinstance(line, StackLine):
        return line
    raise InputError(
        line if isinstance(line, str) else f"{line.log.read_text().strip()}\n{request.good}: see above"
    )


def _requirements(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise InputError(f"{path}: no such file; --between takes a requirements.txt or a pyproject.toml")
    return tuple(map(str, requirements_of([str(path)])))


def packages_line(
    request: BisectStacks,
    dates: StackLine,
    cuts: tuple[int, int],
    workshop: Workshop,
    say: Callable[[str], None],
) -> StackLine | str:
    """The packages that changed between two of the dates; or why they need no search, as text."""
    good, bad = (
        StackEnd(packages_of_recipe(recipe, workshop), recipe.interpreter, request.good_env or {})
        for recipe in (dates.recipe(frozenset(range(cut))) for cut in cuts)
    )
    line = changes_line(good, bad, _sources(request), workshop, None, say)
    return f"only {line.names[0]} changed then" if len(line.names) == 1 else line

"""What a bisection starts from: two stacks, or two days, and what is measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.records import DEFAULT_MARGIN

if TYPE_CHECKING:
    from assay.records import Stack
    from assay.stacks.bisecting.difference import StackEnd, WheelSources
    from assay.stacks.bisecting.lines import ChangesLine, RowLine, StackLine
    from assay.stacks.exploring.environments import Workshop
    from assay.stacks.exploring.measuring import MeasuredWork
    from assay.stacks.stack import Change
    from assay.stacks.storage import Journal
    from assay.stacks.uv import Interpreter

SEED = 1


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect.

    good, bad  a requirement file with exact versions, or a stack that runs have observed
    between    instead of a bad one: two days; `good` is then any requirement file
    measure    a suite's file: what each stack runs
    pythons    versions or paths of the good and the bad one; None: a stack's own, else Assay's
    env        variables of the good and the bad one, besides a stack's own
    wheels     directories with wheels; `offline`: nothing else
    imports    modules that a stack must be able to import
    system     where stacks run: its launcher and options; the Python is each stack's
    systems    the file with that system; None: systems.yaml next to the suite
    """

    good: str
    measure: Path
    bad: str | None = None
    between: tuple[date, date] | None = None
    name: str | None = None
    pythons: tuple[str | None, str | None] = (None, None)
    env: tuple[Mapping[str, str], Mapping[str, str]] = field(default_factory=lambda: ({}, {}))
    wheels: tuple[Path, ...] = ()
    offline: bool = False
    imports: tuple[str, ...] = ()
    system: str = "local"
    systems: Path | None = None


@dataclass(frozen=True)
class BisectLimits:
    """The budget and the precision: nothing starts once the budget is spent.

    error        probability with which a named change may be wrong
    margin       share that counts as equal
    max_repeats  most blocks in which the ends are compared
    max_time_s   of builds and trials together; None: no limit
    """

    error: float = 0.05
    margin: float = DEFAULT_MARGIN
    max_repeats: int = 20
    max_stacks: int = 100
    max_time_s: float | None = None


def system_of(request: BisectRequest) -> Mapping[str, Any]:
    """Where the stacks run, as systems.yaml has it.

    Raises InputError if there is no such system, or it is wrong.
    """
    from assay import launch
    from assay.suite import systems_of
    from assay.suite.findings import unknown
    from assay.suite.systems import THIS_MACHINE, read_file

    file = read_file(request.measure, request.systems)
    if request.system == THIS_MACHINE and request.systems is None:
        return {"launcher": THIS_MACHINE}
    usable, problems = systems_of(file, launch.SYSTEM_MODELS)
    own = [problem for problem in problems if request.system not in usable]
    if own:
        raise InputError(own)
    if request.system not in usable:
        raise InputError([Problem(file.where(), unknown("system", request.system, usable))])
    return dict(file.data.get(request.system) or {"launcher": THIS_MACHINE})


def digest_of_request(request: BisectRequest, limits: BisectLimits, system: Mapping[str, Any]) -> str:
    """What a bisection is resumed by: all that changes what would be measured, budgets left out."""
    from assay.records import digest_of

    contents = [_content(source) for source in (request.good, request.bad, str(request.measure)) if source]
    return digest_of(
        [
            contents,
            [str(date) for date in request.between or ()],
            list(request.pythons),
            [dict(variables) for variables in request.env],
            [str(folder) for folder in request.wheels],
            request.offline,
            list(request.imports),
            dict(system),
            [limits.error, limits.margin, limits.max_repeats],
        ]
    )


def _content(reference: str) -> str:
    path = Path(reference)
    return path.read_text("utf-8", "replace") if path.is_file() else reference


def work_of(path: Path, name: str, margin: float) -> MeasuredWork:
    """What a suite measures. Raises InputError if it is not a suite."""
    from assay.stacks.exploring.measuring import MeasuredWork
    from assay.stacks.exploring.spec import SET_HERE
    from assay.suite import document

    source = document.read(path)
    if source.problems or not isinstance(source.data, dict):
        raise InputError(list(source.problems) or [Problem(source.where(), "expected a suite: a mapping")])
    content = {key: value for key, value in source.data.items() if key not in SET_HERE}

    def where(*keys: str | int) -> str:
        return source.where(*(key for key in keys if key != "measure"))

    return MeasuredWork(name, content, path.absolute().parent, margin, SEED, where)


def first_line(
    request: BisectRequest, runs_dir: Path, workshop: Workshop, journal: Journal, say: Callable[[str], None]
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


def _sources(request: BisectRequest) -> WheelSources:
    from assay.stacks.bisecting.difference import WheelSources

    return WheelSources(
        tuple(folder.absolute() for folder in request.wheels), request.offline, request.imports
    )


def changes_line(
    good: StackEnd,
    bad: StackEnd,
    sources: WheelSources,
    workshop: Workshop,
    journal: Journal | None,
    say: Callable[[str], None],
) -> ChangesLine:
    """The changes between two stacks, ordered and joined as uv can resolve them; found once and kept."""
    from assay.stacks.bisecting.difference import coupled, difference, ordered
    from assay.stacks.bisecting.lines import ChangesLine

    plain = difference(good, bad, sources)
    kept = next(journal.entries("coupled"), None) if journal is not None else None
    if kept is not None:
        raw = {int(index): frozenset(others) for index, others in kept["requires"].items()}
        return ChangesLine(*ordered(plain, raw))

    def tell(done: int, total: int) -> None:
        if done == total or done % 10 == 0:
            say(f"which changes require others: {done} of {total} resolved")

    raw = coupled(plain, workshop, tell)
    if journal is not None:
        journal.add("coupled", requires={str(index): sorted(others) for index, others in raw.items()})
    return ChangesLine(*ordered(plain, raw))


def _fixed(good: Stack | None, bad: Stack | None) -> tuple[Change, ...]:
    """Differences of two observed stacks that packages, Python and variables don't make."""
    from assay.stacks.bisecting.difference import PYTHON
    from assay.stacks.stack import changes

    if good is None or bad is None:
        return ()
    return tuple(
        change
        for change in changes(good, bad)
        if change.kind == "build"
        or (change.kind == "system" and change.name != PYTHON)
        or (change.kind == "setting" and not change.name.startswith("env."))
    )


def _end(request: BisectRequest, runs_dir: Path, side: int) -> tuple[StackEnd, Stack | None]:
    """One of the two stacks; and as it was observed, if it was."""
    from assay.stacks.bisecting.difference import PYTHON, StackEnd
    from assay.stacks.requirements import is_requirement_file, pinned_packages

    reference = str((request.good, request.bad)[side])
    version_or_path, env = request.pythons[side], dict(request.env[side])
    if is_requirement_file(Path(reference)):
        return StackEnd(pinned_packages(Path(reference)), _interpreter(version_or_path), env), None
    if Path(reference).suffix in (".txt", ".toml", ".in"):
        raise InputError(f"{reference}: no such file")
    stack = _observed(runs_dir, reference)
    python = version_or_path or str(stack.system.get(PYTHON) or "") or None
    return StackEnd(dict(stack.packages), _interpreter(python), _variables(stack, reference) | env), stack


def _observed(runs_dir: Path, reference: str) -> Stack:
    from assay.questions.stack_knowledge import digest_named, known

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
    from assay.stacks import uv
    from assay.stacks.uv import Interpreter, UvError

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
    request: BisectRequest, sources: WheelSources, workshop: Workshop, say: Callable[[str], None]
) -> RowLine:
    from assay.stacks.bisecting.lines import RowLine, dates_line

    if request.bad is not None or request.between is None:
        raise InputError("--between takes one requirement file, and no BAD")
    first, last = request.between
    if first >= last:
        raise InputError(f"--between {first} {last}: the first day must be before the second")
    line = dates_line(
        _requirements(Path(request.good)),
        _interpreter(request.pythons[0]),
        (first, last),
        sources,
        request.env[0],
        workshop,
        lambda day: say(f"resolving as of {day}"),
    )
    if isinstance(line, RowLine):
        return line
    raise InputError(
        line if isinstance(line, str) else f"{line.log.read_text().strip()}\n{request.good}: see above"
    )


def _requirements(path: Path) -> tuple[str, ...]:
    from assay.stacks.requirements import requirements_of

    if not path.is_file():
        raise InputError(f"{path}: no such file; --between takes a requirements.txt or a pyproject.toml")
    return tuple(map(str, requirements_of([str(path)])))


def packages_line(
    request: BisectRequest,
    dates: RowLine,
    cuts: tuple[int, int],
    workshop: Workshop,
    say: Callable[[str], None],
) -> ChangesLine | str:
    """The packages that changed between two of the dates; or why they need no search, as text."""
    from assay.stacks.bisecting.difference import StackEnd
    from assay.stacks.bisecting.lines import packages_at

    ends: list[Any] = []
    for cut in cuts:
        env: Mapping[str, str] = dates.env
        ends.append(StackEnd(packages_at(dates, cut, workshop), dates.recipes[cut].interpreter, env))
    line = changes_line(ends[0], ends[1], _sources(request), workshop, None, say)
    return f"only {line.names[0]} changed then" if len(line.names) == 1 else line

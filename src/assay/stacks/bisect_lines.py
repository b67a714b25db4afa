"""The difference between two stacks as changes that are applied one by one, and the stack of each choice.

Which changes require others is what uv finds when it resolves each of them by itself.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from packaging.version import Version

from assay.errors import InputError, Problem
from assay.records import DEFAULT_MARGIN
from assay.stacks import uv
from assay.stacks.bisect_search import ChangeSet
from assay.stacks.environments import (
    BuildFailure,
    Environment,
    EnvironmentRecipe,
    Workshop,
    packages_of,
    versions_of,
)
from assay.stacks.stack import Change, changes, folded, with_it
from assay.stacks.stack import Stack as Stack
from assay.stacks.uv import Interpreter, UvError

if TYPE_CHECKING:
    from assay.stacks.environments import Workshop
    from assay.stacks.measuring import MeasuredWork
    from assay.stacks.stack import Change, Stack
    from assay.stacks.storage import Journal
    from assay.stacks.uv import Interpreter

PYTHON = "python.version"
_ENV = "env."


@dataclass(frozen=True)
class StackEnd:
    """One of the two stacks.

    packages  name → exact version, of all
    env       variables that steer its programs
    """

    packages: Mapping[str, str]
    interpreter: Interpreter
    env: Mapping[str, str]


@dataclass(frozen=True)
class WheelSources:
    """Where wheels come from, besides the index that uv is set to use."""

    wheels: tuple[Path, ...] = ()
    offline: bool = False
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """What is applied together, the main change first."""

    changes: tuple[Change, ...]

    @property
    def packages(self) -> tuple[Change, ...]:
        """Those of its changes that are about packages."""
        return tuple(change for change in self.changes if change.kind == "package")

    @property
    def removes(self) -> bool:
        """Whether it only takes packages away."""
        return bool(self.packages) and all(change.b is None for change in self.changes)

    def __str__(self) -> str:
        first, *others = self.changes
        name = str(first).replace(PYTHON, "Python").replace(_ENV, "")
        if not others:
            return name
        names = ", ".join(change.name for change in others[:3])
        return f"{name} (with {names}{', …' if len(others) > 3 else ''})"


@dataclass(frozen=True)
class StackDifference:
    """Two stacks, and what turns the good one into the bad one."""

    good: StackEnd
    bad: StackEnd
    units: tuple[Unit, ...]
    sources: WheelSources

    def end(self, applied: ChangeSet) -> StackEnd:
        """The good stack with these units' changes."""
        packages, env = dict(self.good.packages), dict(self.good.env)
        interpreter = self.good.interpreter
        for index in sorted(applied):
            for change in self.units[index].changes:
                if change.kind == "system":
                    interpreter = self.bad.interpreter
                    continue
                values = packages if change.kind == "package" else env
                name = change.name.removeprefix(_ENV)
                if change.b is None:
                    values.pop(name, None)
                else:
                    values[name] = str(change.b)
        return StackEnd(packages, interpreter, env)

    def recipe(self, applied: ChangeSet) -> EnvironmentRecipe:
        """What uv builds for it: every package at its exact version; what else one needs, uv adds."""
        end = self.end(applied)
        return recipe_of(end.interpreter, pins_of(end.packages), self.sources)


def difference(good: StackEnd, bad: StackEnd, sources: WheelSources) -> StackDifference:
    """The changes between two stacks, packages with the libraries that their wheels bring."""
    every = changes(_known(good), _known(bad))
    units = tuple(Unit((change, *with_it(change, every))) for change in folded(every))
    return StackDifference(good, bad, units, sources)


def _known(end: StackEnd) -> Stack:
    settings = {f"{_ENV}{name}": value for name, value in end.env.items()}
    return Stack({PYTHON: end.interpreter.version}, end.packages, settings=settings)


def pins_of(packages: Mapping[str, str]) -> tuple[str, ...]:
    """As requirements."""
    return tuple(f"{name}=={version}" for name, version in sorted(packages.items()))


def recipe_of(
    interpreter: Interpreter,
    requirements: Sequence[str],
    sources: WheelSources,
    exclude_newer: str | None = None,
) -> EnvironmentRecipe:
    """What uv builds: nothing is imported but what the user named."""
    return EnvironmentRecipe(
        interpreter,
        (),
        tuple(requirements),
        sources.imports,
        sources.wheels,
        sources.offline,
        exclude_newer,
    )


def between(change: Change) -> str:
    """A requirement that a package is at one of the two versions, or at any one between them."""
    low, high = sorted((str(change.a), str(change.b)), key=Version)
    return f"{change.name}>={low},<={high}"


def coupled(
    difference: StackDifference, workshop: Workshop, say: Callable[[int, int], None]
) -> dict[int, ChangeSet]:
    """What each unit of a difference requires, as `ordered` takes it.

    Where a unit can't be applied to the good stack by itself, uv
    resolves it with the other packages free between their two versions, and rather as in the good stack:
    what moves is required.

    say  receives the number of units done, and of all
    """
    requires: dict[int, ChangeSet] = {}
    for index in range(len(difference.units)):
        requires[index] = _required(difference, index, workshop)
        say(index + 1, len(difference.units))
    return requires


def ordered(
    difference: StackDifference, requires: Mapping[int, ChangeSet]
) -> tuple[StackDifference, dict[int, ChangeSet]]:
    """Units that require each other merged, and each after those that it requires; removals last."""
    closures = {index: _closure(index, requires) for index in requires}
    classes: dict[int, list[int]] = {}
    for index in requires:
        first = min(other for other in closures[index] if index in closures[other])
        classes.setdefault(first, []).append(index)

    def merged(first: int) -> Unit:
        return Unit(tuple(change for index in classes[first] for change in difference.units[index].changes))

    order = sorted(classes, key=lambda first: (merged(first).removes, len(closures[first]), first))
    place = {index: order.index(first) for first, members in classes.items() for index in members}
    required = {
        place[first]: frozenset(place[other] for other in closures[first]) - {place[first]} for first in order
    }
    return replace(difference, units=tuple(map(merged, order))), required


def _closure(index: int, requires: Mapping[int, ChangeSet]) -> set[int]:
    closure, pending = {index}, [index]
    while pending:
        more = requires[pending.pop()] - closure
        closure |= more
        pending += more
    return closure


def _required(difference: StackDifference, index: int, workshop: Workshop) -> ChangeSet:
    """The other units that the good stack also needs if it gets this one."""
    applied = frozenset({index})
    place = workshop.locked(difference.recipe(applied))
    if not isinstance(place, BuildFailure):
        resolved = packages_of(place.lock)
        return _units_brought_by(difference, applied, resolved)
    end = difference.end(applied)
    free = {
        change.name: change
        for other, unit in enumerate(difference.units)
        if other != index
        for change in unit.packages
    }
    pins = pins_of({name: version for name, version in end.packages.items() if name not in free})
    bounds = [between(change) for change in free.values() if change.a is not None and change.b is not None]
    with tempfile.TemporaryDirectory() as folder:
        preferred = Path(folder) / "preferred.txt"
        preferred.write_text("\n".join(pins_of(end.packages)) + "\n")
        try:
            uv.resolve_versions(
                [*pins, *bounds],
                end.interpreter.path,
                hashes=False,
                find_links=difference.sources.wheels,
                offline=difference.sources.offline,
                preferred=preferred,
            )
            resolved = packages_of(preferred)
        except UvError:
            return frozenset()  # every stack with it is tried as it is, and those that can't be built skipped
    moved = {name for name, change in free.items() if name in resolved and resolved[name] != change.a}
    return frozenset(
        other
        for other, unit in enumerate(difference.units)
        if other != index and any(change.name in moved for change in unit.packages)
    )


def _units_brought_by(
    difference: StackDifference, applied: ChangeSet, resolved: Mapping[str, str]
) -> ChangeSet:
    """Units that add packages which are there already, because an applied unit depends on them."""
    return frozenset(
        index
        for index, unit in enumerate(difference.units)
        if index not in applied
        and any(change.a is None and change.name in resolved for change in unit.packages)
    )


_MOST_VERSIONS = 200


class StackLine(Protocol):
    """What can be bisected."""

    @property
    def what(self) -> str:
        """What its changes are, as text."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its changes, in order."""

    @property
    def requires(self) -> Mapping[int, ChangeSet]:
        """Change → changes without which it can't be built."""

    @property
    def alone(self) -> bool:
        """Whether its changes can be applied in any order."""

    def recipe(self, stack: ChangeSet) -> EnvironmentRecipe:
        """What uv builds for a stack."""

    def variables(self, stack: ChangeSet) -> Mapping[str, str]:
        """The environment variables of its programs."""


@dataclass(frozen=True)
class ChangesLine:
    """The changes between two stacks."""

    difference: StackDifference
    requires: Mapping[int, ChangeSet]
    what: str = "changes"
    alone: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Of its units."""
        return tuple(map(str, self.difference.units))

    def recipe(self, stack: ChangeSet) -> EnvironmentRecipe:
        """What uv builds for a stack."""
        return self.difference.recipe(stack)

    def variables(self, stack: ChangeSet) -> Mapping[str, str]:
        """The environment variables of its programs."""
        return self.difference.end(stack).env


@dataclass(frozen=True)
class RowLine:
    """Stacks in a row, of which only the beginnings exist: versions, dates.

    labels  of the stacks, one more than there are changes
    """

    what: str
    labels: tuple[str, ...]
    recipes: tuple[EnvironmentRecipe, ...]
    env: Mapping[str, str]
    requires: Mapping[int, ChangeSet] = field(default_factory=dict)
    alone: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the steps from one stack to the next."""
        return tuple(f"{a} → {b}" for a, b in zip(self.labels, self.labels[1:], strict=False))

    def recipe(self, stack: ChangeSet) -> EnvironmentRecipe:
        """What uv builds for a stack."""
        return self.recipes[len(stack)]

    def variables(self, stack: ChangeSet) -> Mapping[str, str]:
        """The environment variables of its programs."""
        return self.env


def versions_line(
    difference: StackDifference, index: int, stack: ChangeSet, workshop: Workshop
) -> RowLine | str:
    """The versions of the package that a unit changes, between its two; or why there is nothing to bisect.

    stack  where the package was found to make the difference; with other versions of it, packages of its
           unit are free between their two versions
    """
    unit = difference.units[index]
    change = unit.packages[0] if unit.packages else None
    if change is None or change.a is None or change.b is None:
        return "it is not another version of a package"
    try:
        versions = _between(change, difference)
    except UvError as error:
        return f"the versions of {change.name} can't be found: {error.words}"
    if not versions:
        return f"the index has no version of {change.name} between the two that has a wheel for this platform"
    labels = (str(change.a), *versions, str(change.b))
    for base in (stack, stack - {index}):
        recipes = tuple(_with_version(difference, base, unit.packages, label) for label in labels)
        ends = workshop.locked(recipes[0]), workshop.locked(recipes[-1])
        if not any(isinstance(end, BuildFailure) for end in ends):
            return RowLine(f"versions of {change.name}", labels, recipes, difference.end(stack).env)
    return f"{change.name} {change.a} and {change.b} can't be built with the same other packages"


def _between(change: Change, difference: StackDifference) -> tuple[str, ...]:
    """From the good version to the bad one, both left out."""
    from packaging.version import Version

    low, high = sorted((str(change.a), str(change.b)), key=Version)
    versions = versions_of(
        f"{change.name}>{low},<{high}",
        change.name,
        "patch",
        _MOST_VERSIONS,
        difference.good.interpreter.path,
        find_links=difference.sources.wheels,
        offline=difference.sources.offline,
    )
    return versions[::-1] if high == str(change.b) else versions


def _with_version(
    difference: StackDifference, base: ChangeSet, packages: Sequence[Change], version: str
) -> EnvironmentRecipe:
    end = difference.end(base)
    own = {change.name for change in packages}
    pins = pins_of({name: pinned for name, pinned in end.packages.items() if name not in own})
    first, *others = packages
    bounds = [between(change) for change in others if change.a is not None and change.b is not None]
    return recipe_of(end.interpreter, (*pins, f"{first.name}=={version}", *bounds), difference.sources)


def dates_line(
    requirements: Sequence[str],
    interpreter: Interpreter,
    days: tuple[date, date],
    sources: WheelSources,
    env: Mapping[str, str],
    workshop: Workshop,
    say: Callable[[date], None],
) -> RowLine | BuildFailure | str:
    """The days on which uv would resolve the requirements to something else than the day before.

    Only where the locks at the ends of a period differ is it searched for such days. Returns the failure if
    the requirements can't be resolved on the first or the last day, and text if nothing changed.
    """
    locks: dict[date, str] = {}

    def recipe(day: date) -> EnvironmentRecipe:
        return recipe_of(interpreter, tuple(requirements), sources, f"{day.isoformat()}T00:00:00Z")

    def lock(day: date) -> str:
        if day not in locks:
            say(day)
            place = workshop.locked(recipe(day))
            locks[day] = place.lock.read_text() if isinstance(place, Environment) else f"none: {place.why}"
        return locks[day]

    for day in days:
        place = workshop.locked(recipe(day))
        if isinstance(place, BuildFailure):
            return place
    changed = _changed(days[0], days[1], lock)
    if not changed:
        return f"uv resolves the requirements to the same versions on {days[0]} and on {days[1]}"
    points = (days[0], *changed)
    return RowLine("dates", tuple(map(str, points)), tuple(map(recipe, points)), env)


def _changed(first: date, last: date, lock: Callable[[date], str]) -> list[date]:
    """The days after the first on which the lock differs from that of the day before."""
    if first >= last or lock(first) == lock(last):
        return []
    if last - first == timedelta(days=1):
        return [last]
    middle = first + (last - first) // 2
    return [*_changed(first, middle, lock), *_changed(middle, last, lock)]


def packages_at(line: RowLine, cut: int, workshop: Workshop) -> dict[str, str]:
    """Name → version of the stack at a place in the row; empty if it can't be resolved."""
    place = workshop.locked(line.recipes[cut])
    return {} if isinstance(place, BuildFailure) else packages_of(place.lock)


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
    from assay.suite.load import THIS_MACHINE, read_file

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
    from assay.stacks.explore_spec import SET_HERE
    from assay.stacks.measuring import MeasuredWork
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
    from assay.stacks.uv import is_requirement_file, pinned_packages

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
    from assay.stacks.known import digest_named, known

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
    from assay.stacks.uv import requirements_of

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
    ends: list[Any] = []
    for cut in cuts:
        env: Mapping[str, str] = dates.env
        ends.append(StackEnd(packages_at(dates, cut, workshop), dates.recipes[cut].interpreter, env))
    line = changes_line(ends[0], ends[1], _sources(request), workshop, None, say)
    return f"only {line.names[0]} changed then" if len(line.names) == 1 else line

"""The difference between two stacks as changes that are applied one by one, and the stack of each choice.

Which changes require others is what uv finds when it resolves each of them by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

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
from assay.stacks.stack import Change, Stack, changes, folded, with_it
from assay.stacks.storage import Journal
from assay.stacks.uv import Interpreter, UvError

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


@dataclass(frozen=True)
class StackLine:
    """Stacks that can be bisected: those between two stacks, or in a row of versions or dates.

    names       of the changes, in order
    recipe      what uv builds for a stack
    variables   the environment variables of its programs
    requires    change → changes without which it can't be built
    difference  between the two stacks, whose changes can be applied in any order; None for a row, of which
                only the beginnings exist
    """

    what: str
    names: tuple[str, ...]
    recipe: Callable[[ChangeSet], EnvironmentRecipe]
    variables: Callable[[ChangeSet], Mapping[str, str]]
    requires: Mapping[int, ChangeSet] = field(default_factory=dict)
    difference: StackDifference | None = None

    @property
    def alone(self) -> bool:
        """Whether its changes can be applied in any order."""
        return self.difference is not None


def _changes_line(difference: StackDifference, requires: Mapping[int, ChangeSet]) -> StackLine:
    names = tuple(map(str, difference.units))
    return StackLine(
        "changes", names, difference.recipe, lambda stack: difference.end(stack).env, requires, difference
    )


def _row(
    what: str, labels: Sequence[str], recipes: Sequence[EnvironmentRecipe], env: Mapping[str, str]
) -> StackLine:
    names = tuple(f"{a} → {b}" for a, b in pairwise(labels))
    return StackLine(what, names, lambda stack: recipes[len(stack)], lambda _: env)


def versions_line(
    difference: StackDifference, index: int, stack: ChangeSet, workshop: Workshop
) -> StackLine | str:
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
            return _row(f"versions of {change.name}", labels, recipes, difference.end(stack).env)
    return f"{change.name} {change.a} and {change.b} can't be built with the same other packages"


def _between(change: Change, difference: StackDifference) -> tuple[str, ...]:
    """From the good version to the bad one, both left out."""
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
) -> StackLine | BuildFailure | str:
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
    return _row("dates", [*map(str, points)], [*map(recipe, points)], env)


def _changed(first: date, last: date, lock: Callable[[date], str]) -> list[date]:
    """The days after the first on which the lock differs from that of the day before."""
    if first >= last or lock(first) == lock(last):
        return []
    if last - first == timedelta(days=1):
        return [last]
    middle = first + (last - first) // 2
    return [*_changed(first, middle, lock), *_changed(middle, last, lock)]


def packages_of_recipe(recipe: EnvironmentRecipe, workshop: Workshop) -> dict[str, str]:
    """Name → version of what uv locks for a recipe; empty if it can't be resolved."""
    place = workshop.locked(recipe)
    return {} if isinstance(place, BuildFailure) else packages_of(place.lock)


def changes_line(
    good: StackEnd,
    bad: StackEnd,
    sources: WheelSources,
    workshop: Workshop,
    journal: Journal | None,
    say: Callable[[str], None],
) -> StackLine:
    """The changes between two stacks, ordered and joined as uv can resolve them; found once and kept."""
    plain = difference(good, bad, sources)
    kept = next(journal.entries("coupled"), None) if journal is not None else None
    if kept is not None:
        raw = {int(index): frozenset(others) for index, others in kept["requires"].items()}
        return _changes_line(*ordered(plain, raw))

    def tell(done: int, total: int) -> None:
        if done == total or done % 10 == 0:
            say(f"which changes require others: {done} of {total} resolved")

    raw = coupled(plain, workshop, tell)
    if journal is not None:
        journal.add("coupled", requires={str(index): sorted(others) for index, others in raw.items()})
    return _changes_line(*ordered(plain, raw))

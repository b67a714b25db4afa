"""Rows of stacks to bisect: changes of a difference, versions of one package, dates of an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Protocol

from assay.stacks.bisecting.difference import StackDifference, WheelSources, between, pins_of, recipe_of
from assay.stacks.bisecting.search import Stack
from assay.stacks.exploring.environments import (
    BuildFailure,
    Environment,
    EnvironmentRecipe,
    Workshop,
    packages_of,
    versions_of,
)
from assay.stacks.stack import Change
from assay.stacks.uv import Interpreter, UvError

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
    def requires(self) -> Mapping[int, Stack]:
        """Change → changes without which it can't be built."""

    @property
    def alone(self) -> bool:
        """Whether its changes can be applied in any order."""

    def recipe(self, stack: Stack) -> EnvironmentRecipe:
        """What uv builds for a stack."""

    def variables(self, stack: Stack) -> Mapping[str, str]:
        """The environment variables of its programs."""


@dataclass(frozen=True)
class ChangesLine:
    """The changes between two stacks."""

    difference: StackDifference
    requires: Mapping[int, Stack]
    what: str = "changes"
    alone: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Of its units."""
        return tuple(map(str, self.difference.units))

    def recipe(self, stack: Stack) -> EnvironmentRecipe:
        """What uv builds for a stack."""
        return self.difference.recipe(stack)

    def variables(self, stack: Stack) -> Mapping[str, str]:
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
    requires: Mapping[int, Stack] = field(default_factory=dict)
    alone: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the steps from one stack to the next."""
        return tuple(f"{a} → {b}" for a, b in zip(self.labels, self.labels[1:], strict=False))

    def recipe(self, stack: Stack) -> EnvironmentRecipe:
        """What uv builds for a stack."""
        return self.recipes[len(stack)]

    def variables(self, stack: Stack) -> Mapping[str, str]:
        """The environment variables of its programs."""
        return self.env


def versions_line(difference: StackDifference, index: int, stack: Stack, workshop: Workshop) -> RowLine | str:
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
    difference: StackDifference, base: Stack, packages: Sequence[Change], version: str
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

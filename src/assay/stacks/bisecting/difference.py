"""The difference between two stacks as changes that are applied one by one, and the stack of each choice.

Which changes require others is what uv finds when it resolves each of them by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from assay.records import Stack as KnownStack
from assay.stacks import uv
from assay.stacks.bisecting.search import Stack
from assay.stacks.exploring.environments import BuildFailure, EnvironmentRecipe, Workshop, packages_of
from assay.stacks.stack import Change, changes, folded, with_it
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

    def end(self, applied: Stack) -> StackEnd:
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

    def recipe(self, applied: Stack) -> EnvironmentRecipe:
        """What uv builds for it: every package at its exact version; what else one needs, uv adds."""
        end = self.end(applied)
        return recipe_of(end.interpreter, pins_of(end.packages), self.sources)


def difference(good: StackEnd, bad: StackEnd, sources: WheelSources) -> StackDifference:
    """The changes between two stacks, packages with the libraries that their wheels bring."""
    every = changes(_known(good), _known(bad))
    units = tuple(Unit((change, *with_it(change, every))) for change in folded(every))
    return StackDifference(good, bad, units, sources)


def _known(end: StackEnd) -> KnownStack:
    settings = {f"{_ENV}{name}": value for name, value in end.env.items()}
    return KnownStack({PYTHON: end.interpreter.version}, end.packages, settings=settings)


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
) -> dict[int, Stack]:
    """What each unit of a difference requires, as `ordered` takes it.

    Where a unit can't be applied to the good stack by itself, uv
    resolves it with the other packages free between their two versions, and rather as in the good stack:
    what moves is required.

    say  receives the number of units done, and of all
    """
    requires: dict[int, Stack] = {}
    for index in range(len(difference.units)):
        requires[index] = _required(difference, index, workshop)
        say(index + 1, len(difference.units))
    return requires


def ordered(
    difference: StackDifference, requires: Mapping[int, Stack]
) -> tuple[StackDifference, dict[int, Stack]]:
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


def _closure(index: int, requires: Mapping[int, Stack]) -> set[int]:
    closure, pending = {index}, [index]
    while pending:
        more = requires[pending.pop()] - closure
        closure |= more
        pending += more
    return closure


def _required(difference: StackDifference, index: int, workshop: Workshop) -> Stack:
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
            uv.resolve(
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


def _units_brought_by(difference: StackDifference, applied: Stack, resolved: Mapping[str, str]) -> Stack:
    """Units that add packages which are there already, because an applied unit depends on them."""
    return frozenset(
        index
        for index, unit in enumerate(difference.units)
        if index not in applied
        and any(change.a is None and change.name in resolved for change in unit.packages)
    )

"""The difference between two stacks as changes that are applied one by one, and the stack of each choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from assay.records import Stack as KnownStack
from assay.stacks.bisecting.search import Stack
from assay.stacks.changes import Change, changes, folded, with_it
from assay.stacks.exploring.environments import EnvironmentRecipe
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

"""What differs between two stacks, and which of it belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from assay.records import Scalar, Stack
from assay.stacks.parts import OF_WHEEL

Kind = Literal["package", "build", "system", "setting"]
COME_WITH: Final[Mapping[str, tuple[str, ...]]] = {"torch": OF_WHEEL}
"""Package → how the names of libraries begin that its wheel requires at exact versions."""


@dataclass(frozen=True)
class Change:
    """One difference from A to B; None where a side lacks it."""

    kind: Kind
    name: str
    a: Scalar
    b: Scalar

    @property
    def reversed(self) -> Change:
        """From B to A."""
        return Change(self.kind, self.name, self.b, self.a)

    def __str__(self) -> str:
        name = self.name if self.kind != "build" else f"build of {self.name}"
        if self.a is None:
            return f"+ {name} {self.b}"
        return f"− {name} {self.a}" if self.b is None else f"{name} {self.a} → {self.b}"


def changes(a: Stack, b: Stack) -> tuple[Change, ...]:
    """All differences: packages first, then builds, settings and the system.

    Another build of a package whose version changed is part of that change. Builds that one side does not
    know are no differences.
    """
    packages = tuple(_changes("package", a.packages, b.packages))
    changed = {change.name for change in packages}
    known = (a.builds, b.builds) if a.builds and b.builds else ({}, {})
    builds = (change for change in _changes("build", *known) if change.name not in changed)
    return (
        *packages,
        *builds,
        *_changes("setting", a.settings, b.settings),
        *_changes("system", a.system, b.system),
    )


def _changes(kind: Kind, a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> Iterator[Change]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield Change(kind, name, a.get(name), b.get(name))


def with_it(change: Change, among: Iterable[Change]) -> tuple[Change, ...]:
    """Those of the other changes that this one brings: libraries that its wheel requires."""
    prefixes = COME_WITH.get(change.name, ()) if change.kind == "package" else ()
    return tuple(
        other
        for other in among
        if prefixes and other.kind in ("package", "build") and other.name.startswith(prefixes)
    )


def folded(delta: Iterable[Change]) -> tuple[Change, ...]:
    """The changes without those that another of them brings."""
    every = tuple(delta)
    brought = {other for change in every for other in with_it(change, every)}
    return tuple(change for change in every if change not in brought)

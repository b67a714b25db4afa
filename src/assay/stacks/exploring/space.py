"""What candidates are made of: dimensions with their values, and one value of each as a choice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from assay.records import digest_of

INCUMBENT: Final = "incumbent"
"""Name of what is used today, next to those of the candidates."""
Kind = Literal["package", "python", "base", "env"]


@dataclass(frozen=True)
class Dimension:
    """Something that varies: a package's version, the interpreter, the base image, or a variable.

    values  as text, at least one
    """

    kind: Kind
    name: str
    values: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name, which no other dimension has."""
        return self.name if self.kind != "env" else f"${self.name}"


@dataclass(frozen=True)
class StackChoice:
    """A value of each dimension, by the dimension's key, in the space's order."""

    values: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """Its name in files."""
        return digest_of([list(pair) for pair in self.values])[:12]

    def __getitem__(self, key: str) -> str:
        return dict(self.values)[key]

    def with_values(self, values: Mapping[str, str]) -> StackChoice:
        """The same with other values, by key."""
        return StackChoice(tuple((key, values.get(key, value)) for key, value in self.values))

    def differs(self, other: StackChoice) -> tuple[tuple[str, str], ...]:
        """Keys and values that the other does not have."""
        return tuple(pair for pair in self.values if pair not in other.values)

    def __str__(self) -> str:
        return ", ".join(
            f"{key} {value}" if key[0] != "$" else f"{key[1:]}={value}" for key, value in self.values
        )


@dataclass(frozen=True)
class Space:
    """All dimensions; the incumbent's values are among them."""

    dimensions: tuple[Dimension, ...]
    incumbent: StackChoice

    @property
    def size(self) -> int:
        """Number of choices, the incumbent included."""
        number = 1
        for dimension in self.dimensions:
            number *= len(dimension.values)
        return number

    def choices(self) -> Iterator[StackChoice]:
        """All of them, the first dimension slowest."""
        keys = [dimension.key for dimension in self.dimensions]
        for values in itertools.product(*(dimension.values for dimension in self.dimensions)):
            yield StackChoice(tuple(zip(keys, values, strict=True)))

    def at(self, number: int) -> StackChoice:
        """The choice at this index of `choices`."""
        values = []
        for dimension in reversed(self.dimensions):
            number, place = divmod(number, len(dimension.values))
            values.append((dimension.key, dimension.values[place]))
        return StackChoice(tuple(reversed(values)))


def space_of(dimensions: Sequence[Dimension], incumbent: Mapping[str, str]) -> Space:
    """The space, with the incumbent's values added where they are missing.

    incumbent  by key; a dimension that it lacks has its first value
    """
    full = tuple(
        d
        if (own := incumbent.get(d.key)) is None or own in d.values
        else Dimension(d.kind, d.name, (own, *d.values))
        for d in dimensions
    )
    return Space(full, StackChoice(tuple((d.key, incumbent.get(d.key, d.values[0])) for d in full)))

"""A table of names whose entries are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class ByName(Mapping[str, T]):
    """Name → entry, or one attribute of it. Listing the names imports nothing.

    places  name → location of its entry, `module:NAME`
    part    returns the entry or its attribute
    """

    def __init__(self, places: Mapping[str, str], part: Callable[[Any], T]) -> None:
        self._places, self._part = places, part

    def __getitem__(self, name: str) -> T:
        module, _, entry = self._places[name].partition(":")
        return self._part(getattr(import_module(module), entry))

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

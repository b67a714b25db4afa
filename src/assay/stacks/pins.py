"""The packages that an image may hold, at the versions tested here, and what each needs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import NamedTuple

import msgspec

from assay.errors import InputError


class Pin(msgspec.Struct, frozen=True):
    """A package: its version, the oldest Python that it runs with, the packages that it needs."""

    version: str
    python: str
    requires: tuple[str, ...]

    def runs_with(self, python: str) -> bool:
        """Whether this Python, like 3.11, is new enough."""
        return _number(python) >= _number(self.python)


class PinnedPackage(NamedTuple):
    """A package at its version."""

    name: str
    pin: Pin

    def __str__(self) -> str:
        return f"{self.name}=={self.pin.version}"


@cache
def pins() -> dict[str, Pin]:
    """All of them by name. Made by tools/stack_pins.py."""
    data = resources.files("assay.stacks").joinpath("pins.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, Pin])


def closure(names: Iterable[str]) -> tuple[PinnedPackage, ...]:
    """These packages and all that they need, each once, sorted. Raises InputError for an unknown one."""
    found: dict[str, Pin] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in pins():
            raise InputError(f"no version of package {name} is known to fit: name it in stacks/parts.py")
        found[name] = pins()[name]
        left += found[name].requires
    return tuple(PinnedPackage(name, found[name]) for name in sorted(found))


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

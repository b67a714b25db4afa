"""Which changes require others, as uv finds when it resolves each of them by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from assay.stacks import uv
from assay.stacks.bisecting.difference import StackDifference, Unit, between, pins_of
from assay.stacks.bisecting.search import Stack
from assay.stacks.exploring.environments import BuildFailure, Workshop, packages_of
from assay.stacks.uv import UvError


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

"""What is known of the differences between two stacks: of each change by itself, and of all of them together.

The evidence for a change is every pair of stacks, measured in one session on one hardware class with one
workload, that differ in it. Pairs with the same set of changes count together, whatever else their stacks
contain. If other things changed between them too, the effect is of all of these together, and says so. Of
several such sets, those with the fewest other changes are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.stacks.effects import Pair, between_sessions, within_sessions
from assay.analyse.statistics.families import corrected
from assay.records import Comparison, HardwareClass, Observation, Stack, StackWorkload, to_compact_json
from assay.stacks.changes import Change, changes, folded, with_it

_MOST_SETS = 2  # of changes that are shown for one change on one hardware class
Matches = Callable[[Stack], bool]
Where = tuple[str, str, str]  # hardware, workload, metric: what is comparable


@dataclass(frozen=True)
class KnownEffect:
    """What changing a stack did to one metric on one hardware class.

    comparison  of the stacks with the changes and those without
    others      what else changed between them: the effect is of all of it together
    oldest, newest  when it was observed, seconds since the epoch
    here        the hardware is of the class that was asked about
    origins     keys of the parties that observed it; "" is this runs directory
    """

    comparison: Comparison
    others: tuple[Change, ...]
    hardware: HardwareClass
    workload: StackWorkload
    oldest: float
    newest: float
    here: bool
    origins: frozenset[str]


def effects_of_change(
    observed: Sequence[Observation], change: Change, margin: float, here: frozenset[str]
) -> tuple[KnownEffect, ...]:
    """What is known of one change: on each hardware class and workload, the least confounded evidence.

    here  digests of the hardware classes that are asked about; their effects come first
    """
    sets: dict[tuple[Where, frozenset[Change]], list[Pair]] = {}
    for where, of_session in _by_place(observed):
        for a in of_session:
            if not _may_have(a.stack, change, change.a):
                continue
            for b in of_session:
                if not _may_have(b.stack, change, change.b):
                    continue
                delta = frozenset(changes(a.stack, b.stack))
                if change in delta:
                    sets.setdefault((where, delta), []).append((a, b))
    found = [
        _effect(
            pairs, _others(delta, change), (_words(change, change.a), _words(change, change.b)), margin, here
        )
        for (_, delta), pairs in sets.items()
    ]
    return _least_confounded(found)


def effects_together(
    observed: Sequence[Observation],
    sides: tuple[Matches, Matches],
    asked: Iterable[Change],
    names: tuple[str, str],
    margin: float,
    here: frozenset[str],
) -> tuple[KnownEffect, ...]:
    """What is known of all changes together: of stacks that match A compared with those that match B.

    asked  the changes that the question is about: what else differs is reported

    Stacks that were never measured in one session are compared by the means of their sessions.
    """
    pairs: dict[Where, list[Pair]] = {}
    alone: dict[Where, tuple[list[Observation], list[Observation]]] = {}
    for where, of_session in _by_place(observed):
        a, b = ([one for one in of_session if matches(one.stack)] for matches in sides)
        found = [(x, y) for x in a for y in b if x.stack.digest != y.stack.digest]
        pairs.setdefault(where, []).extend(found)
        apart = alone.setdefault(where, ([], []))
        apart[0].extend(a)
        apart[1].extend(b)
    known = []
    for where, of in pairs.items():
        if of:
            known.append(_effect(of, _beyond(of, asked), names, margin, here))
        elif all(alone[where]) and _one_program(alone[where]):
            known.append(_apart(alone[where], names, margin, here, asked))
    return tuple(sorted(known, key=lambda one: not one.here))


def claimed_together(effects: Sequence[KnownEffect]) -> tuple[KnownEffect, ...]:
    """The effects, with verdicts that may be claimed jointly for all those on the hardware asked about."""
    claims = [one for one in effects if one.here]
    held = iter(corrected([one.comparison for one in claims]))
    return tuple(replace(one, comparison=next(held)) if one.here else one for one in effects)


def _by_place(observed: Iterable[Observation]) -> Iterator[tuple[Where, list[Observation]]]:
    """The primary figures of each session at each place."""
    found: dict[tuple[Where, str, str], list[Observation]] = {}
    texts: dict[int, str] = {}
    for one in observed:
        if one.primary and one.metric is not None and one.workload is not None and _positive(one):
            metric = texts.setdefault(id(one.metric), to_compact_json(one.metric))
            where = (one.hardware.digest, one.workload.question, metric)
            found.setdefault((where, one.origin, one.session), []).append(one)
    yield from ((where, of) for (where, _, _), of in found.items())


def _positive(one: Observation) -> bool:
    return bool(one.values) and min(value for _, value in one.values) > 0


def _may_have(stack: Stack, change: Change, value: object) -> bool:
    """Whether a stack may be on this side of a change; a quick look before everything is compared."""
    parts: Mapping[str, Mapping[str, object]] = {
        "package": stack.packages,
        "build": stack.builds,
        "system": stack.system,
        "setting": stack.settings,
    }
    return parts[change.kind].get(change.name) == value


def _others(delta: frozenset[Change], change: Change) -> tuple[Change, ...]:
    brought = set(with_it(change, delta))
    return tuple(sorted(folded(delta - brought - {change}), key=lambda one: (one.kind, one.name)))


def _beyond(pairs: Sequence[Pair], asked: Iterable[Change]) -> tuple[Change, ...]:
    """What differs in every case besides the changes that were asked about."""
    known = set(asked)
    each = [set(changes(a.stack, b.stack)) - known for a, b in pairs]
    brought = {one for change in known for delta in each for one in with_it(change, delta)}
    return tuple(sorted(set.union(*each) - brought, key=lambda one: (one.kind, one.name)))


def _effect(
    pairs: Sequence[Pair],
    others: tuple[Change, ...],
    names: tuple[str, str],
    margin: float,
    here: frozenset[str],
) -> KnownEffect:
    return _known(within_sessions(pairs, names, margin), [o for pair in pairs for o in pair], others, here)


def _apart(
    sides: tuple[Sequence[Observation], Sequence[Observation]],
    names: tuple[str, str],
    margin: float,
    here: frozenset[str],
    asked: Iterable[Change],
) -> KnownEffect:
    a, b = sides
    others = _beyond([(x, y) for x in a for y in b], asked)
    return _known(between_sessions(a, b, names, margin), [*a, *b], others, here)


def _one_program(sides: tuple[Sequence[Observation], Sequence[Observation]]) -> bool:
    """Whether figures of different sessions come from the same program, and so can be compared."""
    return len({one.workload.digest for side in sides for one in side if one.workload is not None}) == 1


def _known(
    comparison: Comparison,
    observed: Sequence[Observation],
    others: tuple[Change, ...],
    here: frozenset[str],
) -> KnownEffect:
    first = observed[0]
    if first.workload is None:
        raise ValueError("a failure has no effect")
    return KnownEffect(
        comparison=comparison,
        others=others,
        hardware=first.hardware,
        workload=first.workload,
        oldest=min(one.at for one in observed),
        newest=max(one.at for one in observed),
        here=first.hardware.digest in here,
        origins=frozenset(one.origin for one in observed),
    )


def _words(change: Change, value: object) -> str:
    """The name of one side of a change: `torch 2.8.0`."""
    name = change.name.removeprefix("env.")
    return f"without {name}" if value is None else f"{name} {value}"


def _least_confounded(found: Sequence[KnownEffect]) -> tuple[KnownEffect, ...]:
    """Per hardware class, workload and metric: the effects with the fewest other changes."""
    by_place: dict[tuple[str, str, str], list[KnownEffect]] = {}
    for one in found:
        point = one.comparison.point
        labels = f"{point.metric} {sorted(point.labels.items())}"
        by_place.setdefault((one.hardware.digest, one.workload.question, labels), []).append(one)
    kept: list[KnownEffect] = []
    for of in by_place.values():
        fewest = min(len(one.others) for one in of)
        best = [one for one in of if len(one.others) == fewest]
        kept += sorted(best, key=lambda one: -min(one.comparison.sessions))[:_MOST_SETS]
    return tuple(sorted(kept, key=lambda one: (not one.here, len(one.others))))

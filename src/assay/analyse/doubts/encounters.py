"""What affected the sides' runs, as a share of each run: the worst of a run's nodes or GPUs counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypeVar

from assay.analyse.doubts.case import Case, counted, percent
from assay.records import DEFAULT_MARGIN, Result

T = TypeVar("T")


@dataclass(frozen=True)
class Encounter(Generic[T]):
    """What affected one side's runs: the mean share over runs with a count, and the worst of them."""

    name: str
    share: float
    runs: int
    worst: T
    worst_trial: str


def encounter(
    name: str,
    results: Iterable[Result],
    parts: Callable[[Result], Sequence[T]],
    share: Callable[[T], float | None],
) -> Encounter[T] | None:
    """A side's runs by the worst of their nodes or GPUs; None if none of them counted it.

    parts  of a run: its nodes, its GPUs
    share  of the run that a part was affected; None if nobody counted it
    """
    shares: list[float] = []
    worst: tuple[float, T, str] | None = None
    for result in results:
        known = [(found, part) for part in parts(result) if (found := share(part)) is not None]
        if not known:
            continue
        most, part = max(known, key=itemgetter(0))
        shares.append(most)
        if worst is None or most > worst[0]:
            worst = (most, part, result.run.trial.id)
    if worst is None:
        return None
    return Encounter(name, math.fsum(shares) / len(shares), len(shares), *worst[1:])


def evidence(
    case: Case,
    what: str,
    parts: Callable[[Result], Sequence[T]],
    share: Callable[[T], float | None],
    words: Callable[[T], str],
) -> str | None:
    """The share on each side, and whether both are affected; None if no side is affected enough to matter.

    what   `a quota stopped it for {} of its CPU time`
    words  about the worst node or GPU
    """
    matters = (case.margin or DEFAULT_MARGIN) / 2
    results = {side.name: [sample.result for sample in side.group.samples] for side in case.sides}
    found = [encounter(name, own, parts, share) for name, own in results.items()]
    sides = [met for met in found if met is not None]
    if max((met.share for met in sides), default=0.0) < matters:
        return None
    told = [
        f"{met.name}: {what.format(percent(met.share))} over {counted(met.runs, 'run')} "
        f"(most in {met.worst_trial}: {words(met.worst)})"
        for met in sides
        if met.share >= matters
    ]
    told += [f"{met.name}: {percent(met.share)}" for met in sides if met.share < matters]
    if len(case.sides) > 1:
        told.append(_between(case, sides, matters))
    return "; ".join(told)


def _between(case: Case, sides: Sequence[Encounter[T]], matters: float) -> str:
    """What it means for a comparison."""
    unknown = {side.name for side in case.sides} - {met.name for met in sides}
    if unknown:
        return f"nothing was counted for {', '.join(sorted(unknown))}"
    least, most = sorted(sides, key=lambda met: met.share)
    if least.share >= matters or most.share - least.share <= matters:
        return "both sides were affected, and either may have lost more"
    return f"the effect on {least.name} hardly matters, the effect on {most.name} may have slowed it down"

"""What two references come to, held against each other: `assay compare`, `assay gate` and `assay.compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.evidence import DEFAULT_MARGIN, Named, named, ready
from assay.errors import InputError
from assay.units import counted

if TYPE_CHECKING:
    from assay.analyse.convergence import Convergence
    from assay.analyse.decompose import Decomposition, Undecomposed
    from assay.analyse.ranking import Ranking
    from assay.records import Comparison, Point, Result, Shape

Sides = tuple[list["Result"], list["Result"], tuple[str, str]]
_OF_TRAINING = ("time_to_train", "time_per_epoch", "epochs_to_target")  # metrics that the split explains


@dataclass(frozen=True)
class Held:
    """Everything that came of holding the sides against each other.

    primary       of `found`, what the verdict rests on: each benchmark's leading metric
    not_compared  points without a comparison, each with the reason in words
    splits        trainings to a target taken apart; not_split those that can't be
    convergences  the sides against the references that were named
    sides         all runs of each side, by its name
    """

    found: tuple[Comparison, ...]
    primary: tuple[Comparison, ...]
    not_compared: tuple[tuple[Point, str], ...]
    margin: float
    splits: tuple[Decomposition, ...] = ()
    not_split: tuple[Undecomposed, ...] = ()
    convergences: tuple[Convergence, ...] = ()
    sides: Mapping[str, Sequence[Result]] = field(default_factory=dict)


def ranked_of(
    runs_dir: Path,
    reference: str,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    layouts: bool = False,
) -> tuple[Ranking, ...]:
    """The rankings of what a reference names; empty where its systems are few or have a baseline."""
    from assay.analyse.ranking import MOST_PAIRED, rankings

    if baseline is not None or layouts:
        return ()
    ready(runs_dir)
    found = named(runs_dir, reference)
    sides = found.by_system()
    if len(sides) <= MOST_PAIRED or (found.plan is not None and found.plan.baseline in sides):
        return ()
    return rankings(sides, found.metrics(), metric)


def hold(
    runs_dir: Path,
    a: str,
    b: str | None = None,
    *,
    margin: float | None = None,
    metric: str | None = None,
    layouts: bool = False,
    references: Sequence[str] = (),
    baseline: str | None = None,
) -> Held:
    """Compare what A and B refer to; with A alone its other systems against its baseline.

    baseline    of A alone, instead of its plan's
    layouts     hold shapes of equally many ranks against each other too
    references  runs that the convergence of both sides is held against

    Raises InputError where a reference names nothing, or nothing can be compared.
    """
    from assay.analyse.compare import hold_against
    from assay.analyse.decompose import decompose
    from assay.analyse.families import claimed_together

    ready(runs_dir)
    left = named(runs_dir, a)
    right = None if b is None else named(runs_dir, b)
    width = margin or _agreed_margin(left, right)
    found: list[Comparison] = []
    not_compared: list[tuple[Point, str]] = []
    splits: list[Decomposition] = []
    not_split: list[Undecomposed] = []
    sides = _sides(left, right, layouts=layouts, named_baseline=baseline)
    runs: dict[str, Sequence[Result]] = {}
    for side_a, side_b, names in sides:
        outcome = hold_against(
            side_a, side_b, margin=width, names=names, metrics=left.metrics(), layouts=layouts
        )
        found += outcome.comparisons
        for comparison in outcome.comparisons:
            runs |= {comparison.a: side_a, comparison.b: side_b}
        not_compared += outcome.left_out
        split, left_whole = decompose(side_a, side_b, margin=width, names=names)
        splits += split
        not_split += left_whole
    if metric is not None:
        found = [c for c in found if c.point.metric == metric]
        not_compared = [(point, why) for point, why in not_compared if point.metric == metric]
        if metric not in _OF_TRAINING:
            splits, not_split = [], []
    if not found and not splits:
        raise InputError(_nothing(left, right, metric, not_compared))
    leading = _leading_metrics(found)
    together = claimed_together(found, lambda c: leading[c.point.benchmark] == c.point.metric)
    primary = tuple(c for c in together if leading[c.point.benchmark] == c.point.metric)
    convergences = tuple(_convergences(runs_dir, sides, references)) if references else ()
    return Held(
        together, primary, tuple(not_compared), width, tuple(splits), tuple(not_split), convergences, runs
    )


def _convergences(runs_dir: Path, sides: Sequence[Sides], references: Sequence[str]) -> Iterator[Convergence]:
    """Each side once against the runs of all references."""
    from assay.analyse.convergence import against_references

    known = [result for reference in references for result in named(runs_dir, reference).results]
    once: dict[str, dict[str, Result]] = {}
    for *both, names in sides:
        for name, side in zip(names, both, strict=True):
            once.setdefault(name, {}).update({result.run.id: result for result in side})
    for name, runs in once.items():
        yield from against_references(name, [*runs.values()], known)


def _sides(
    left: Named, right: Named | None, *, layouts: bool, named_baseline: str | None = None
) -> list[Sides]:
    """Which runs are held against which: two systems, each against a baseline, or one system's layouts."""
    a = left.by_system()
    if named_baseline is not None and (right is not None or named_baseline not in a):
        why = f"it has {', '.join(a)}" if right is None else "it is of one reference alone; leave B out"
        raise InputError(f"--baseline {named_baseline}: not a system of {left.reference}: {why}")
    if right is None:
        own = left.plan.baseline if left.plan is not None and left.plan.baseline in a else next(iter(a))
        baseline = named_baseline or own
        others = [system for system in a if system != baseline]
        if others:
            return [(a[baseline], a[system], (baseline, system)) for system in others]
        if layouts:
            return _of_one_system(left, baseline)
        raise InputError(
            f"{left.reference} holds one system ({baseline}): name what to compare it with, as `assay list` "
            "shows it, or hold its shapes of equally many accelerators against each other: --layouts"
        )
    b = right.by_system()
    if len(a) == len(b) == 1:
        (name_a, side_a), (name_b, side_b) = *a.items(), *b.items()
        names = (name_a, name_b) if name_a != name_b else (left.reference, right.reference)
        return [(side_a, side_b, names)]
    if a.keys() == b.keys():
        return [
            (a[system], b[system], (f"{left.reference}:{system}", f"{right.reference}:{system}"))
            for system in a
        ]
    several = left if len(a) > 1 else right
    systems = list(several.by_system())
    raise InputError(
        f"{several.reference} holds the systems {', '.join(systems)}: name one of them, "
        f"like {several.reference}:{systems[0]}"
    )


def _of_one_system(named: Named, system: str) -> list[Sides]:
    """Each two shapes of equally many accelerators, fewer workers first: 2x8, 16x1. Raises InputError."""
    by_shape: dict[Shape, list[Result]] = {}
    for result in named.results:
        by_shape.setdefault(result.run.trial.shape, []).append(result)
    ordered = sorted(by_shape, key=lambda shape: (shape.ranks, shape.workers))
    alike = [(a, b) for a, b in combinations(ordered, 2) if a.ranks == b.ranks]
    if not alike:
        shapes = ", ".join(map(str, ordered))
        raise InputError(f"{named.reference}: no two of its shapes have equally many accelerators: {shapes}")
    return [(by_shape[a], by_shape[b], (system, system)) for a, b in alike]


def _agreed_margin(left: Named, right: Named | None) -> float:
    """The suite's, where both sides come from one suite with one margin; else 2 %."""
    plans = [left.plan if named is None else named.plan for named in (left, right)]
    if any(plan is None for plan in plans):
        return DEFAULT_MARGIN
    agreed = {(plan.suite, plan.margin) for plan in plans if plan is not None}
    return agreed.pop()[1] if len(agreed) == 1 else DEFAULT_MARGIN


def _leading_metrics(found: Sequence[Comparison]) -> dict[str, str]:
    """Of each benchmark the first metric in the declared order."""
    first: dict[str, str] = {}
    for comparison in found:
        first.setdefault(comparison.point.benchmark, comparison.point.metric)
    return first


def _nothing(
    left: Named, right: Named | None, metric: str | None, not_compared: Sequence[tuple[Point, str]]
) -> str:
    """Why there is no comparison at all, with what went wrong on each side."""
    from assay.analyse.groups import cause, counts

    sides = [left] if right is None else [left, right]
    parts = ["nothing to compare: no metric was measured at the same point on both sides"]
    if metric is not None:
        parts = [f"nothing to compare: {metric} was not measured at the same point on both sides"]
    parts += [f"{point.benchmark} {point.metric} at {point.shape}: {why}" for point, why in not_compared[:5]]
    for side in sides:
        failed = [result for result in side.results if not counts(result)]
        if failed:
            why = cause(failed[0]) or f"not finished: {failed[0].run.state}"
            parts.append(
                f"{side.reference}: {len(failed)} of {counted(len(side.results), 'run')} "
                f"gave no result ({why})"
            )
    return "\n  ".join(parts)

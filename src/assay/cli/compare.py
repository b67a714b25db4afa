"""`assay compare`: the verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.evidence import DEFAULT_MARGIN, Named, named, ready
from assay.cli.options import JSON, MARGIN, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError

if TYPE_CHECKING:
    from assay.analyse.convergence import Convergence
    from assay.analyse.decompose import Decomposition, Undecomposed
    from assay.records import Comparison, Point, Result, Shape

Sides = tuple[list["Result"], list["Result"], tuple[str, str]]
_OF_TRAINING = ("time_to_train", "time_per_epoch", "epochs_to_target")  # metrics that the split explains


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@MARGIN
@click.option("--metric", help="Only this metric.")
@click.option("--all", "every", is_flag=True, help="Show all metrics, not only each benchmark's primary one.")
@click.option("--layouts", is_flag=True, help="Also 16x1 against 2x8: shapes of equally many accelerators.")
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="SET",
    help="Hold the convergence of both sides against these runs; may be given several times.",
)
@RUNS
@JSON
def command(
    a: str,
    b: str | None,
    margin: float | None,
    metric: str | None,
    every: bool,
    layouts: bool,
    references: tuple[str, ...],
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Say whether B is as fast as A: a ratio, its 95 % interval from the runs, and one verdict from it.

    A and B are sessions, imported sets or `suite:system`; `assay list` shows them. With A alone, its other
    systems are held against its baseline. The ratio is B over A, of geometric means.

    \b
    Examples:
      assay compare quickstart                                   all systems against the baseline
      assay compare resnet50:bare-metal resnet50:openshift
      assay compare resnet50/2026-03-01T101500Z resnet50/2026-03-08T090000Z --margin 1%
      assay compare v3.0-ubuntu v3.1-openshift --metric time_to_train --json
      assay compare nccl:pods-of-8 nccl:pods-of-1 --layouts --metric busbw
      assay compare pod-sizes --layouts                         2x8 against 16x1 of one system
      assay compare one-node two-nodes --reference reference-256 --reference reference-512

    \b
    Verdicts: equivalent, the interval lies within the margin; faster or slower, it excludes 1;
    undecided, neither, and then it says why. JSON holds every metric.

    An exchange measured at several sizes is one line, with the sizes where B is slower; its intervals hold
    at all sizes together. --all shows each size.

    Below them the time to train of trainings to a target is split into convergence (how many epochs, the
    seed's luck and the recipe) and system (time per epoch), with what is not like for like.

    \b
    Exit codes, by the primary metrics: 0 all equivalent or faster; 1 one is slower; 3 else, one is
    undecided; 4 there is nothing to compare.
    """
    held = hold(runs_dir, a, b, margin=margin, metric=metric, layouts=layouts, references=references)
    if as_json:
        echo_json(_document(held) | _time_to_train(held))
    else:
        _show(held, every=every)
        _show_splits(held)
    sys.exit(_exit_code(held.primary or held.splits))


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


def hold(
    runs_dir: Path,
    a: str,
    b: str | None = None,
    *,
    margin: float | None = None,
    metric: str | None = None,
    layouts: bool = False,
    references: Sequence[str] = (),
) -> Held:
    """Compare what A and B refer to; with A alone its other systems against its baseline.

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
    sides = _sides(left, right, layouts=layouts)
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


def _sides(left: Named, right: Named | None, *, layouts: bool) -> list[Sides]:
    """Which runs are held against which: two systems, each against a baseline, or one system's layouts."""
    a = left.by_system()
    if right is None:
        baseline = left.plan.baseline if left.plan is not None and left.plan.baseline in a else next(iter(a))
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


def _show(held: Held, *, every: bool) -> None:
    from rich.console import Console

    from assay.report import figures, terminal

    shown = held.found if every else held.primary
    if shown:
        Console().print(terminal.verdicts(shown, folded=not every))
        Console().print(terminal.whys(held.primary, held.sides, held.margin), end="")
    if len(held.found) > len(shown):
        click.echo(
            f"{len(held.found) - len(shown)} more comparisons of other metrics: --all or --metric NAME."
        )
    for point, why in held.not_compared:
        place = f"{point.benchmark} {figures.metric(point.metric)}, {figures.where(point)}"
        click.echo(f"Not compared: {place}: {why}.")


def _show_splits(held: Held) -> None:
    if not (held.splits or held.not_split or held.convergences):
        return
    from rich.console import Console

    from assay.report import split_terminal

    Console().print(split_terminal.splits(held.splits, held.not_split, held.convergences))


def _time_to_train(held: Held) -> dict[str, Any]:
    from assay.records import to_plain

    return {
        "time_to_train": [to_plain(split) for split in held.splits],
        "time_to_train_not_split": [to_plain(left) for left in held.not_split],
        "convergence": [to_plain(found) for found in held.convergences],
    }


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
                f"{side.reference}: {len(failed)} of {len(side.results)} runs gave no result ({why})"
            )
    return "\n  ".join(parts)


def _document(held: Held) -> dict[str, Any]:
    from assay.records import to_plain
    from assay.report import exchange_words, why_words

    leading = {id(comparison) for comparison in held.primary}
    return {
        "schema": "assay.compare/1",
        "margin": held.margin,
        "comparisons": [_plain(comparison, primary=id(comparison) in leading) for comparison in held.found],
        "curves": exchange_words.plain(held.primary),
        "slower": why_words.plain(held.primary, held.sides, held.margin),
        "uncompared": [{"points": to_plain(point), "reason": why} for point, why in held.not_compared],
    }


def _plain(c: Comparison, *, primary: bool) -> dict[str, Any]:
    from assay.records import to_plain

    points = {"benchmark": c.point.benchmark, "shape": c.point.shape, "labels": dict(c.point.labels)}
    ratio = {"value": c.ratio.value, "low": c.ratio.low, "high": c.ratio.high}
    return {
        "a": c.a,
        "b": c.b,
        "metric": c.point.metric,
        "primary": primary,
        "unit": c.point.unit,
        "better": c.point.better,
        "points": points,
        "means": [c.mean_a, c.mean_b],
        "ratio": ratio | {"confidence": c.ratio.confidence},
        "n": list(c.n),
        "method": c.method,
        "margin": c.margin,
        "verdict": c.verdict,
        "reason": c.reason,
        "smallest_visible": c.smallest_visible,
        "by_margin": c.by_margin,
        "replication": c.replication,
        "sessions": list(c.sessions),
        "runs_needed": None if c.runs_needed is None else to_plain(c.runs_needed),
        "rank": None if c.rank is None else to_plain(c.rank),
        "family": None if c.family is None else to_plain(c.family),
        "doubts": to_plain(c.doubts),
    }


def _exit_code(primary: Sequence[Comparison | Decomposition]) -> int:
    verdicts = {comparison.verdict for comparison in primary}
    if "slower" in verdicts:
        return EXIT_WORSE
    return EXIT_UNDECIDED if "undecided" in verdicts else EXIT_OK

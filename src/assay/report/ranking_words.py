"""Rankings of many systems: what they come to in at most three sentences, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from assay.analyse.ranking import Ranked, Ranking
from assay.records import Estimate, to_plain
from assay.report import figures
from assay.report.folding import shortened
from assay.report.tables import Body, Row, Table
from assay.units import counted, factor

MOST_NAMED = 3  # rivals that a sentence names each
MOST_SHOWN = 10  # rows of a benchmark in a terminal, unless all are asked for
WIDEST_NAME = 36
COLUMNS = (
    "#",
    "system",
    "size",
    "mean",
    "95 % interval",
    "behind the best",
    "group",
    "n",
    "each",
    "#",
    "score",
)
HOW_TO_READ = (
    "behind the best: over the best other system; these hold for all systems of a benchmark together (95 %). "
    "group: not told apart from its first by these runs, all pairs together. "
    "each: {each}, and the place by it. score: MLPerf's, in minutes."
)


def headline(ranking: Ranking) -> str:
    """Which system is the best, which others may be, and which is per accelerator."""
    best, whole = ranking.best(), len(ranking.systems)
    rivals = [s for s in ranking.may_lead() if s is not best]
    value = _value(best.value)
    first = (
        f"{ranking.benchmark}: {_named(best)} {_has_the_best(ranking)} of {counted(whole, 'system')}, {value}"
    )
    if best.total.may_lead is None:
        first += "; it shows no spread, so its lead is not tested."
    elif not rivals:
        first += f"; no other is the best, at 95 % for all {whole} together."
    else:
        who = ", ".join(map(_named, rivals[:MOST_NAMED]))
        more = f" and {len(rivals) - MOST_NAMED} more" if len(rivals) > MOST_NAMED else ""
        first += f"; by these runs {who}{more} may be as good or better (95 % for all {whole} together)."
    return " ".join([first, *_per_accelerator(ranking), *_untested(ranking)])


def _per_accelerator(ranking: Ranking) -> Iterator[str]:
    if len({s.ranks for s in ranking.systems}) < 2:
        return
    first, able = ranking.best("accelerator"), len(ranking.may_lead("accelerator"))
    others = f"; {able - 1} more may be as good" if able > 1 else ""
    yield f"Per accelerator, {_named(first)} leads{others}."


def _untested(ranking: Ranking) -> Iterator[str]:
    hidden = sum(s.total.may_lead is None for s in ranking.systems)
    if hidden:
        yield (
            f"{counted(hidden, 'system')} with one run or with equal values "
            f"{'is' if hidden == 1 else 'are'} in the order by {'its' if hidden == 1 else 'their'} mean only."
        )


def _named(system: Ranked) -> str:
    return f"{system.name} ({system.shape})"


def _has_the_best(ranking: Ranking) -> str:
    extreme = "shortest" if factor(ranking.unit)[1] == "s" else "lowest"
    words = extreme if ranking.better == "lower" else "highest"
    return f"has the {words} {figures.metric(ranking.metric)}"


def _value(estimate: Estimate) -> str:
    unit, (text,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    return f"{text} {unit}".rstrip()


def _each(ranking: Ranking) -> str:
    return "times the accelerators" if ranking.better == "lower" else "per accelerator"


def table(ranking: Ranking, most: int | None = None) -> Table:
    """Every system in order; `most` rows at most."""
    shown = ranking.systems[:most]
    unit, means = figures.column(
        [s.value.value for s in shown], ranking.unit, [figures.half_width(s.value) for s in shown]
    )
    each_unit, each = figures.column([s.per_accelerator.value for s in shown], ranking.unit)
    rows = tuple(_row(s, mean, cost) for s, mean, cost in zip(shown, means, each, strict=True))
    columns = list(COLUMNS)
    columns[3], columns[8] = f"mean, {unit}", f"each, {each_unit}"
    caption = f"{ranking.benchmark} {figures.metric(ranking.metric)}: {len(ranking.systems)} systems in order"
    return Table(caption, tuple(columns), (Body("", rows),), frozenset({1, 2}))


def how_to_read(rankings: Sequence[Ranking]) -> str:
    """What the columns mean; "" without a ranking."""
    return HOW_TO_READ.format(each=_each(rankings[0])) if rankings else ""


def _row(s: Ranked, mean: str, cost: str) -> Row:
    return Row(
        (
            str(s.total.place),
            s.name,
            s.shape,
            mean,
            _interval(s.value),
            _behind(s.total.behind),
            "" if s.total.group is None else str(s.total.group),
            str(s.value.n),
            cost,
            str(s.each.place),
            _score(s),
        )
    )


def _interval(estimate: Estimate) -> str:
    """Around the mean, as shares of it: the same digits whatever the unit."""
    if estimate.low is None or estimate.high is None:
        return figures.NONE
    down, up = 1 - estimate.low / estimate.value, estimate.high / estimate.value - 1
    return f"−{figures.percent(down)} +{figures.percent(up)}"


def _behind(behind: Estimate) -> str:
    if behind.low is None or behind.high is None:
        return figures.NONE
    return f"{behind.low:.2f} to {behind.high:.2f}"


def _score(s: Ranked) -> str:
    if s.minutes is None:
        return figures.NONE
    scaled = "" if s.scaled_minutes is None else f" ({s.scaled_minutes:.2f} scaled)"
    return f"{s.minutes:.2f}{scaled}"


def terminal(rankings: Sequence[Ranking], *, every: bool) -> RenderableType:
    """The headline and the first systems of each benchmark."""
    parts: list[RenderableType] = []
    for ranking in rankings:
        parts += [Text(headline(ranking), style="bold"), _grid(ranking, None if every else MOST_SHOWN)]
        left = 0 if every else len(ranking.systems) - MOST_SHOWN
        parts += [Text(f"{left} more: --all", style="dim")] * (left > 0) + [Text()]
    if rankings:
        parts.append(Text(how_to_read(rankings), style="dim"))
    return Group(*parts)


def _grid(ranking: Ranking, most: int | None) -> Grid:
    made = table(ranking, most)
    left_out = {4} | ({10} if all(s.minutes is None for s in ranking.systems) else set())
    grid = Grid(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    kept = [at for at in range(len(made.columns)) if at not in left_out]
    for at in kept:
        grid.add_column(made.columns[at], justify="left" if at in made.words else "right", no_wrap=at != 1)
    for row in made.bodies[0].rows:
        cells = [shortened(row.cells[at], WIDEST_NAME) if at == 1 else row.cells[at] for at in kept]
        grid.add_row(*map(Text, cells))
    return grid


def plain(rankings: Sequence[Ranking]) -> list[Mapping[str, Any]]:
    """For `--json`: each ranking with its headline."""
    return [{"headline": headline(ranking), **to_plain(ranking)} for ranking in rankings]

"""Rankings of many systems: a summary in at most three sentences, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.analyse.rankings import RankedSystem, Ranking, UnrankedSystem
from assay.records import Estimate, to_plain
from assay.units import counted, factor
from assay.view import figures
from assay.view.blocks import Block, Fold, Paragraph, Table, TableBody, TableRow

MOST_NAMED = 3  # rivals that a sentence names individually
MOST_SHOWN = 10  # rows per benchmark in a terminal, unless all are requested
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
    "behind the best: relative to the best other system; these intervals hold for all systems of a "
    "benchmark simultaneously (95 %). group: these runs can't distinguish the system from the group's first, "
    "all pairs together. each: {each}, and the rank by it. score: MLPerf's, in minutes."
)


def headline(ranking: Ranking) -> str:
    """What to fix first; which system is the best, which others may be, and which is best per accelerator."""
    best = ranking.best()
    if best is None:
        return " ".join([*_to_be_fixed(ranking), *_without_a_best(ranking), *_untested(ranking)])
    sentences = (_has_the_lead(ranking, best), *_per_accelerator(ranking), *_untested(ranking))
    return " ".join([*_to_be_fixed(ranking), *sentences])


def task(ranking: Ranking) -> str:
    """`train (dataset A)`: what was measured, and at which labels."""
    labels = figures.labels(ranking.labels)
    return f"{ranking.benchmark} ({labels})" if labels else ranking.benchmark


def _to_be_fixed(ranking: Ranking) -> Iterator[str]:
    """Each doubt because of which the order probably does not hold, with its evidence and the remedy."""
    for doubt in ranking.doubts:
        evidence, remedy = doubt.evidence.rstrip("."), doubt.remedy.rstrip(".")
        yield f"{task(ranking)}: fix before you choose: {doubt.code}: {evidence}. {remedy}."


def _without_a_best(ranking: Ranking) -> Iterator[str]:
    """Why no best system is named: some systems are not ranked, and the reason."""
    left_out = ranking.not_ranked
    names = [f"{s.name} ({s.shape}): {s.reason}" for s in left_out[:MOST_NAMED]]
    more = [f"{len(left_out) - MOST_NAMED} more"] if len(left_out) > MOST_NAMED else []
    yield (
        f"{task(ranking)}: which system {_has_the_best(ranking)} is unknown: "
        f"{'; '.join([*names, *more])}. A ranking compares ratios, so {counted(len(left_out), 'system')} "
        f"of {len(left_out) + len(ranking.systems)} {'is' if len(left_out) == 1 else 'are'} not ranked."
    )


def _has_the_lead(ranking: Ranking, best: RankedSystem) -> str:
    whole = len(ranking.systems)
    rivals = [s for s in ranking.may_lead() if s is not best]
    value = _value(best.value)
    first = f"{task(ranking)}: {_named(best)} {_has_the_best(ranking)} of {counted(whole, 'system')}, {value}"
    if best.total.may_lead is None:
        first += "; its runs show no spread, so its lead is not tested."
    elif not rivals:
        first += f"; at 95 % confidence for all {whole}, no other system is the best."
    else:
        who = ", ".join(map(_named, rivals[:MOST_NAMED]))
        more = f" and {len(rivals) - MOST_NAMED} more" if len(rivals) > MOST_NAMED else ""
        first += f"; given these runs, {who}{more} may be as good or better (95 % for all {whole} together)."
        if ranking.flattered:
            share = figures.percent(ranking.flattered)
            first += f" Picked for its mean, it looks up to {share} too good on average."
    return first


def _per_accelerator(ranking: Ranking) -> Iterator[str]:
    first = ranking.best("accelerator")
    if first is None or len({s.ranks for s in ranking.systems}) < 2:
        return
    able = len(ranking.may_lead("accelerator"))
    others = f"; {able - 1} more may be as good" if able > 1 else ""
    yield f"Per accelerator, {_named(first)} leads{others}."


def _untested(ranking: Ranking) -> Iterator[str]:
    hidden = sum(s.total.group is None for s in ranking.systems)
    if hidden:
        yield (
            f"{counted(hidden, 'system')} with one run or with equal values "
            f"{'is' if hidden == 1 else 'are'} ordered by {'its' if hidden == 1 else 'their'} mean only."
        )


def _named(system: RankedSystem) -> str:
    return f"{system.name} ({system.shape})"


def _has_the_best(ranking: Ranking) -> str:
    extreme = "shortest" if factor(ranking.unit)[1] == "s" else "lowest"
    adjective = extreme if ranking.better == "lower" else "highest"
    return f"has the {adjective} {figures.metric(ranking.metric)}"


def _value(estimate: Estimate) -> str:
    unit, (text,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    return f"{text} {unit}".rstrip()


def _each(ranking: Ranking) -> str:
    return "times the accelerators" if ranking.better == "lower" else "per accelerator"


def table(ranking: Ranking, most: int | None = None) -> Table:
    """Every system in order, `most` rows at most, and then those that are not ranked."""
    shown, left_out = ranking.systems[:most], ranking.not_ranked
    values = [*(s.value for s in shown), *(s.value for s in left_out)]
    unit, means = figures.column([v.value for v in values], ranking.unit, [*map(figures.half_width, values)])
    each_unit, each = figures.column([s.per_accelerator.value for s in shown], ranking.unit)
    rows = tuple(_row(s, mean, cost) for s, mean, cost in zip(shown, means[: len(shown)], each, strict=True))
    rows += tuple(_row_left_out(s, mean) for s, mean in zip(left_out, means[len(shown) :], strict=True))
    columns = list(COLUMNS)
    columns[3], columns[8] = f"mean, {unit}", f"each, {each_unit}"
    what = f"{task(ranking)} {figures.metric(ranking.metric)}"
    apart = f", {len(left_out)} not ranked" if left_out else ""
    caption = f"{what}: {counted(len(ranking.systems), 'system')} in order{apart}"
    return Table(caption, tuple(columns), (TableBody("", rows),), frozenset({1, 2}))


def how_to_read(rankings: Sequence[Ranking]) -> str:
    """What the columns mean; "" without a ranking."""
    return HOW_TO_READ.format(each=_each(rankings[0])) if rankings else ""


def _row(s: RankedSystem, mean: str, cost: str) -> TableRow:
    return TableRow(
        (
            str(s.total.place),
            s.name,
            s.shape,
            mean,
            _interval(s.value),
            figures.interval(s.total.behind),
            "" if s.total.group is None else str(s.total.group),
            str(s.value.n),
            cost,
            str(s.each.place),
            _score(s),
        )
    )


def _row_left_out(s: UnrankedSystem, mean: str) -> TableRow:
    no = figures.NONE
    return TableRow((no, s.name, s.shape, mean, no, no, "", str(s.value.n), no, no, no))


def _interval(estimate: Estimate) -> str:
    """Around the mean, as shares of it: the same digits whatever the unit."""
    if estimate.low is None or estimate.high is None:
        return figures.NONE
    down, up = 1 - estimate.low / estimate.value, estimate.high / estimate.value - 1
    return f"−{figures.percent(down)} +{figures.percent(up)}"


def _score(s: RankedSystem) -> str:
    if s.minutes is None:
        return figures.NONE
    scaled = "" if s.scaled_minutes is None else f" ({s.scaled_minutes:.2f} scaled)"
    return f"{s.minutes:.2f}{scaled}"


def blocks(rankings: Sequence[Ranking]) -> Iterator[Block]:
    """The headline and the table of each benchmark, the first systems in the short form."""
    for ranking in rankings:
        yield Paragraph(headline(ranking), "strong")
        more = len(ranking.systems) - MOST_SHOWN
        full = _unnamed(table(ranking))
        if more > 0:
            short = _unnamed(table(ranking, MOST_SHOWN))
            yield Fold((short,), (full,), f"{more} more systems")
        else:
            yield full
        yield Paragraph("")
    if rankings:
        yield Paragraph(how_to_read(rankings), "dim")


def _unnamed(whole: Table) -> Table:
    """The table without the caption, which the headline says; intervals and scores leave room for names."""
    return replace(whole, caption="", details=frozenset({4, 10}))


def plain(rankings: Sequence[Ranking]) -> list[Mapping[str, Any]]:
    """For `--json`: each ranking with its headline."""
    return [
        {"headline": headline(ranking), "best": best and best.name, **to_plain(ranking)}
        for ranking in rankings
        for best in [ranking.best()]
    ]

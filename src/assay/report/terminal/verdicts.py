"""The tables that `run`, `compare` and `scale` print; readable at 80 columns and without color."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.analyse.comparison.sides import OpenQuestion
from assay.analyse.doubts import KINDS, rank
from assay.analyse.statistics import bands
from assay.records import (
    Comparison,
    Doubt,
    Estimate,
    Requirement,
    Result,
    Scalar,
    Scaling,
    ScalingPoint,
)
from assay.report import figures
from assay.report.folding import FoldedText
from assay.report.sentences import exchange as exchange_words
from assay.report.sentences import undecided as undecided_words
from assay.report.sentences import why as why_words
from assay.report.sentences.recommendation import advised
from assay.report.sentences.sentences import (
    REQUIREMENT_SYMBOLS,
    SYMBOLS,
    allowances,
    by_ranks,
    headline,
    looked_at,
    new_session,
    questions,
    together,
    verdict_word,
    visible,
)
from assay.report.tables import gathered

if TYPE_CHECKING:
    from assay.analyse.feeding import Feeding

_STYLES = {
    "equivalent": "green",
    "faster": "bold green",
    "slower": "bold red",
    "undecided": "yellow",
    "holds": "green",
    "fails": "bold red",
}
_PLAIN_WIDTH = 100  # columns if there is no terminal
_WIDEST_NAME = 12  # of a system, in a column heading; a longer one is wrapped at its dashes
Labels = Mapping[str, Scalar]
Row = tuple[str | Text, ...]  # the place first, then one cell per column


def plain(what: RenderableType) -> str:
    """What a command would print, without color."""
    console = Console(width=_PLAIN_WIDTH, no_color=True, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def advice(
    comparisons: Sequence[Comparison],
    requirements: Sequence[Requirement] = (),
    open_questions: Sequence[OpenQuestion] = (),
) -> RenderableType:
    """What to do, in one sentence: the first line of a command's result."""
    first = advised(comparisons, requirements, open_questions)
    style = {"invalid": "bold red", "biased": "bold yellow"}.get(first.severity, "bold")
    return Group(_text(f"{first.action}. {first.sentence}", style=style), Text())


def verdicts(
    comparisons: Sequence[Comparison], *, doubted: bool = True, folded: bool = False
) -> RenderableType:
    """Every comparison as a row under its pair and metric, then the doubts.

    folded  show a curve over sizes as one line instead of a row per size
    """
    if not comparisons:
        return Text("Nothing to compare: the sides have no metric at a common point.")
    parts: list[RenderableType] = []
    for of_pair in gathered(comparisons, lambda c: (c.a, c.b)):
        parts.append(_text(headline(questions(of_pair)), style="bold"))
        rows = [c for c in of_pair if c.along is None] if folded else of_pair
        parts += [_verdict_table(rows)] if rows else []
        parts += _curve_lines(of_pair) if folded else []
    found = figures.distinct_doubts(comparisons) if doubted else []
    parts += [Text()] * bool(found)
    parts.append(doubts(found, len(comparisons)))
    return Group(*parts)


def _curve_lines(comparisons: Sequence[Comparison]) -> list[RenderableType]:
    """One line per curve: at which sizes it is slower, faster, or as fast."""
    found = bands.curve_verdicts(comparisons)
    if not found:
        return []
    lines = [_text(exchange_words.verdict_line(curve), style=_STYLES[curve.verdict]) for curve in found]
    of_curves = [c for curve in found for c in curve.sizes]
    return [*lines, Text(_how_to_read(of_curves), style="dim")]


def whys(
    comparisons: Sequence[Comparison], sides: Mapping[str, Sequence[Result]], margin: float
) -> RenderableType:
    """Possible reasons for what is slower, a paragraph per question; empty if nothing is slower."""
    parts: list[RenderableType] = []
    for asked, sentences in why_words.told(comparisons, sides, margin):
        place = f"{asked.point.benchmark} on {figures.shape(asked.point.shape)}"
        parts += [_text(f"Why {asked.sides[1]} is slower at {place}:", style="bold")]
        parts += [Padding(_text(sentence), (0, 0, 0, 2)) for sentence in sentences]
    return Group(*parts)


def _verdict_table(comparisons: Sequence[Comparison]) -> RenderableType:
    sections = []
    for of_metric in gathered(comparisons, lambda c: (c.point.benchmark, c.point.metric)):
        point = of_metric[0].point
        unit, texts = figures.means(of_metric)
        shared = figures.shared_labels([c.point.labels for c in of_metric])
        rows: list[Row] = []
        for c, left, right in zip(of_metric, texts[::2], texts[1::2], strict=True):
            place = _place(c.point.shape, figures.own_labels(c.point.labels, shared))
            rows.append((place, left, right, *_ratio(c), _verdict(c)))
            if alone := figures.alone_beside(c, to="–"):
                rows.append(("  alone", "", "", figures.ratio_value(c.ratio), alone, "", ""))
        sections.append((_heading(point.benchmark, point.metric, unit, point.better, shared), rows))
    columns = (comparisons[0].a, comparisons[0].b, "B/A", "95 % CI", "n", "verdict")
    return Group(_sections(columns, sections), Text(_how_to_read(comparisons), style="dim"))


def _ratio(c: Comparison) -> tuple[str, str, str]:
    runs = str(c.n[0]) if c.n[0] == c.n[1] else f"{c.n[0]}+{c.n[1]}"
    return figures.ratio_value(c.deciding), figures.interval(c.deciding, to="–"), runs


def _how_to_read(comparisons: Sequence[Comparison]) -> str:
    margins = sorted({c.margin for c in comparisons})
    shown = visible(comparisons)
    words = f"margin ±{' and ±'.join(figures.percent(m) for m in margins)}; n runs per side"
    if shown:
        words += "; smallest detectable difference " + figures.span(min(shown), max(shown))
    looked, ranks = looked_at([c.ratio for c in comparisons]), by_ranks(comparisons)
    of_curves = exchange_words.how_to_read(bands.curve_verdicts(comparisons))
    return "\n".join(
        filter(
            None,
            (
                words,
                ranks,
                looked,
                new_session(comparisons),
                *allowances(comparisons),
                *undecided_words.lines(comparisons),
                together(comparisons),
                of_curves,
            ),
        )
    )


def scaling(curves: Sequence[Scaling], *, doubted: bool = True) -> RenderableType:
    """Value, speed-up and efficiency over sizes for each system and metric."""
    if not curves:
        return Text("No scaling to show: no metric was measured at two sizes.")
    sections = []
    for curve in curves:
        halves = [figures.half_width(p.value) for p in curve.points]
        unit, texts = figures.column([p.value.value for p in curve.points], curve.unit, halves)
        whose = f"{curve.system} · {curve.benchmark}"
        heading = _heading(whose, curve.metric, unit, curve.better, curve.labels)
        sections.append(
            (heading, [_scaling_row(p, text) for p, text in zip(curve.points, texts, strict=True)])
        )
    table = _sections(("value", "speed-up", "95 % CI", "efficiency", "n"), sections)
    looked = _looked_at([p.speedup for c in curves for p in c.points])
    return Group(table, *looked, *([doubts_of_curves(curves)] if doubted else []))


def doubts_of_curves(curves: Sequence[Scaling]) -> RenderableType:
    """The doubts about the curves' sizes, each doubt once."""
    every = [(doubt, p) for c in curves for p in c.points for doubt in p.doubts]
    return doubts(_by_code(every), sum(len(c.points) for c in curves))


def doubts_of_feedings(found: Sequence[Feeding]) -> RenderableType:
    """The doubts about supplies and demands, each doubt once."""
    return doubts(_by_code([(doubt, one) for one in found for doubt in one.doubts]), len(found))


def _looked_at(estimates: Sequence[Estimate]) -> list[Text]:
    """A line below a table whose intervals allow for interim looks."""
    looked = looked_at(estimates)
    return [Text(looked, style="dim")] if looked else []


def _scaling_row(point: ScalingPoint, value: str) -> Row:
    interval = figures.interval(point.speedup, to="–")
    return (
        point.shape,
        value,
        f"{figures.ratio_value(point.speedup)}×",
        "" if interval == figures.NONE else interval,
        f"{point.efficiency.value * 100:.0f} %",
        str(point.value.n),
    )


def requirements(held: Sequence[Requirement]) -> RenderableType:
    """Each requirement with its measurement, its one-sided bounds and whether it holds."""
    table = _table()
    table.add_column("requirement", ratio=1)
    for name in ("measured", "95 % bounds"):
        table.add_column(name, justify="right")
    table.add_column("n", justify="right")
    table.add_column("verdict", no_wrap=True)
    for of_metric in gathered(held, lambda r: (r.point.benchmark, r.point.metric)):
        measured = figures.measured_together([r.estimate for r in of_metric])
        for r, texts in zip(of_metric, measured, strict=True):
            words = (
                f"{r.system} · {r.point.benchmark} {figures.metric(r.point.metric)} {r.expectation.written}"
            )
            verdict = Text(f"{REQUIREMENT_SYMBOLS[r.verdict]} {r.verdict}", style=_STYLES[r.verdict])
            table.add_row(_folded(f"{words}\n  {figures.where(r.point)}"), *map(_text, texts), verdict)
    every = [(d, r) for r in held for d in r.doubts]
    looked = _looked_at([r.estimate for r in held if r.estimate is not None])
    return Group(table, *looked, doubts(_by_code(every), len(held)))


def doubts(found: Iterable[tuple[Doubt, Sequence[object]]], of: int) -> RenderableType:
    """Each doubt once, the gravest first: its code, how many results it concerns, the evidence, the remedy.

    A note has no exclamation mark.
    """
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column("code", style="yellow", no_wrap=True)
    table.add_column("evidence")
    for doubt, concerned in sorted(found, key=lambda at: rank(at[0].code)):
        mark = "·" if KINDS[doubt.code].severity == "note" else "!"
        reach = "" if len(concerned) == of else f" (this and similar: {len(concerned)} of {of})"
        table.add_row(_text(f"{mark} {doubt.code}"), _folded(f"{doubt.evidence}{reach}. {doubt.remedy}."))
    return table


def doubts_in_short(found: Iterable[Doubt]) -> RenderableType:
    """Each code once, the gravest first, with its first evidence; the pages give the remedies."""
    table = Table.grid(padding=(0, 1), expand=False)
    table.add_column("code", style="yellow", no_wrap=True)
    table.add_column("evidence")
    first = {doubt.code: doubt for doubt in reversed(list(found))}
    for doubt in sorted(first.values(), key=lambda d: rank(d.code)):
        if KINDS[doubt.code].severity != "note":
            table.add_row(_text(f"! {doubt.code}"), _folded(doubt.evidence))
    return table


def _by_code(found: Iterable[tuple[Doubt, object]]) -> list[tuple[Doubt, list[object]]]:
    groups: dict[str, tuple[Doubt, list[object]]] = {}
    for doubt, concerned in found:
        groups.setdefault(doubt.code, (doubt, []))[1].append(concerned)
    return list(groups.values())


def _sections(columns: Sequence[str], sections: Sequence[tuple[Text, Sequence[Row]]]) -> RenderableType:
    """Rows under headings as wide as the table: one grid per section, all with the same columns."""
    every = [row for _, rows in sections for row in rows]
    widths = [
        max(min(len(name), _WIDEST_NAME), *(len(row[place]) for row in every))
        for place, name in enumerate(columns, start=1)
    ]
    parts: list[RenderableType] = [_grid(columns, widths, show_header=True)]
    for heading, rows in sections:
        table = _grid(columns, widths, show_header=False)
        for row in rows:
            table.add_row(
                *(cell if isinstance(cell, Text) else _folded(cell) for cell in (f" {row[0]}", *row[1:]))
            )
        parts += [heading, table]
    return Group(*parts)


def _grid(columns: Sequence[str], widths: Sequence[int], *, show_header: bool) -> Table:
    table = _table(show_header=show_header)
    table.add_column("", ratio=1)
    for name, width in zip(columns, widths, strict=True):
        table.add_column(_folded(name), width=width, justify="left" if name == "verdict" else "right")
    return table


def printable(words: str) -> str:
    """The text without control characters: none from a log reaches the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in words)


def _text(words: str, style: str = "") -> Text:
    """Text without markup."""
    return Text(printable(words), style=style)


def _folded(words: str) -> FoldedText:
    """Text for a column that may be narrower than the text."""
    return FoldedText(printable(words))


def _table(*, show_header: bool = True) -> Table:
    return Table(
        box=None, padding=(0, 1), pad_edge=False, header_style="dim", expand=True, show_header=show_header
    )


def _place(shape: str, labels: Labels) -> str:
    return f"{shape} {figures.labels(labels)}".strip()


def _heading(benchmark: str, metric: str, unit: str, better: str | None, labels: Labels) -> Text:
    text = _text(f"{benchmark} {figures.metric(metric)}", style="bold")
    notes = ", ".join(filter(None, (figures.labels(labels), unit, "lower is better" * (better == "lower"))))
    if notes:
        text.append(_text(f" ({notes})", style="not bold dim"))
    return text


def _verdict(c: Comparison) -> Text:
    return Text(f"{SYMBOLS[c.verdict]} {verdict_word(c)}", style=_STYLES[c.verdict])

"""Comparisons, scaling and requirements as blocks: what to do, the tables, the doubts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.analyse.comparison.families import curve_verdicts
from assay.analyse.comparison.sides import OpenQuestion
from assay.records import (
    Comparison,
    Doubt,
    Estimate,
    Point,
    Requirement,
    Result,
    Scalar,
    Scaling,
    ScalingPoint,
)
from assay.view import figures
from assay.view.blocks import Block, Doubts, Lead, Paragraph, Table, TableBody, TableRow, Tone
from assay.view.figures import gathered
from assay.view.sentences import exchange as exchange_words
from assay.view.sentences import why as why_words
from assay.view.sentences.recommendation import Recommendation, advised
from assay.view.sentences.sentences import (
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
from assay.view.sentences.why import undecided_lines

if TYPE_CHECKING:
    from assay.analyse.feeding import Feeding

Labels = Mapping[str, Scalar]
_COLUMNS = ("n", "verdict", "detectable", "method")
_TONES: Mapping[str, Tone] = {"invalid": "invalid", "biased": "biased"}


def advice(
    comparisons: Sequence[Comparison],
    requirements: Sequence[Requirement] = (),
    open_questions: Sequence[OpenQuestion] = (),
) -> Lead:
    """What to do, in one sentence: the first line of an answer."""
    return lead(advised(comparisons, requirements, open_questions))


def lead(first: Recommendation) -> Lead:
    """A recommendation as a block."""
    return Lead(first.sentence, _TONES.get(first.severity, "strong"), first.action)


def verdicts(
    comparisons: Sequence[Comparison], *, doubted: bool = True, folded: bool = False
) -> Iterator[Block]:
    """Every comparison as a row under its pair and metric, then the doubts.

    folded  show a curve over sizes as one line instead of a row per size
    """
    if not comparisons:
        yield Paragraph("Nothing to compare: the sides have no metric at a common point.")
        return
    for of_pair in gathered(comparisons, lambda c: (c.a, c.b)):
        yield Paragraph(headline(questions(of_pair)), "strong")
        rows = [c for c in of_pair if c.along is None] if folded else of_pair
        if rows:
            yield verdict_table(rows)
            yield Paragraph(_how_to_read(rows), "dim")
        if folded:
            yield from _curve_lines(of_pair)
    if doubted:
        concerned = figures.distinct_doubts(comparisons)
        yield Doubts(tuple((doubt, len(every)) for doubt, every in concerned), len(comparisons))


def _curve_lines(comparisons: Sequence[Comparison]) -> Iterator[Block]:
    """One line per curve: at which sizes it is slower, faster, or as fast."""
    curves = curve_verdicts(comparisons)
    for curve in curves:
        yield Paragraph(exchange_words.verdict_line(curve), curve.verdict)
    if curves:
        yield Paragraph(_how_to_read([c for curve in curves for c in curve.sizes]), "dim")


def whys(
    comparisons: Sequence[Comparison], sides: Mapping[str, Sequence[Result]], margin: float
) -> Iterator[Block]:
    """Possible reasons for what is slower, a paragraph per question; empty if nothing is slower."""
    for question, sentences in why_words.explain_each(comparisons, sides, margin):
        place = f"{question.point.benchmark} on {figures.shape(question.point.shape)}"
        yield Paragraph(f"Why {question.sides[1]} is slower at {place}:", "strong")
        yield from (Paragraph(sentence, indented=True) for sentence in sentences)


def verdict_table(comparisons: Sequence[Comparison], *, on_page: bool = False) -> Table:
    """One pair's comparisons, a section for each metric.

    on_page  with a caption, with shapes as text, and with the doubts that not all rows have
    """
    bodies = []
    own = _own_doubts(comparisons) if on_page else {}
    for of_metric in gathered(comparisons, lambda c: (c.point.benchmark, c.point.metric)):
        point = of_metric[0].point
        unit, texts = figures.means(of_metric)
        shared = figures.shared_labels([c.point.labels for c in of_metric])
        rows: list[TableRow] = []
        for c, left, right in zip(of_metric, texts[::2], texts[1::2], strict=True):
            place = figures.where(c.point, shared) if on_page else _place(c.point, shared)
            cells = (place, left, right, *_judged(c), *([own[id(c)]] if own else []))
            rows.append(TableRow(cells, c.verdict))
            if alone := figures.alone_beside(c, to="–"):
                cells = ("  alone", "", "", figures.ratio_value(c.ratio), alone)
                rows.append(TableRow((*cells, *[""] * (len(rows[-1].cells) - len(cells)))))
        title = f"{point.benchmark} {figures.metric(point.metric)}"
        bodies.append(TableBody(title, tuple(rows), figures.notes(unit, point.better, shared)))
    first = comparisons[0]
    ratio = ("ratio", "95 % interval") if on_page else ("B/A", "95 % CI")
    columns = ("", first.a, first.b, *ratio, *_COLUMNS, *["specific doubts"] * bool(own))
    caption = f"{first.b} compared with {first.a}, margin ±{figures.percent(first.margin)}" * on_page
    return Table(caption, columns, tuple(bodies), frozenset({0, 6, 8, 9}), frozenset({7, 8}), verdicts=6)


def _own_doubts(comparisons: Sequence[Comparison]) -> dict[int, str]:
    """Each comparison's doubts, by its identity, without those that all have; empty if none has more."""
    shared = set.intersection(*({doubt.code for doubt in c.doubts} for c in comparisons))
    own = {
        id(c): ", ".join(doubt.code for doubt in c.doubts if doubt.code not in shared) for c in comparisons
    }
    return own if any(own.values()) else {}


def _judged(c: Comparison) -> tuple[str, ...]:
    """The cells of a comparison from its ratio on."""
    runs = str(c.n[0]) if c.n[0] == c.n[1] else f"{c.n[0]}+{c.n[1]}"
    detectable = visible([c])
    return (
        figures.ratio_value(c.deciding),
        figures.interval(c.deciding, to="–"),
        runs,
        f"{SYMBOLS[c.verdict]} {verdict_word(c)}",
        figures.percent(detectable[0]) if detectable else figures.NONE,
        c.method or figures.NONE,
    )


def _how_to_read(comparisons: Sequence[Comparison]) -> str:
    margins = sorted({c.margin for c in comparisons})
    first = f"margin ±{' and ±'.join(figures.percent(m) for m in margins)}; n runs per side"
    if shown := visible(comparisons):
        first += "; smallest detectable difference " + figures.span(min(shown), max(shown))
    lines = (
        first,
        by_ranks(comparisons),
        looked_at([c.ratio for c in comparisons]),
        new_session(comparisons),
        *allowances(comparisons),
        *undecided_lines(comparisons),
        together(comparisons),
        exchange_words.how_to_read(curve_verdicts(comparisons)),
    )
    return "\n".join(filter(None, lines))


def scaling(curves: Sequence[Scaling], *, doubted: bool = True) -> Iterator[Block]:
    """Value, speed-up and efficiency over sizes for each system and metric."""
    if not curves:
        yield Paragraph("No scaling to show: no metric was measured at two sizes.")
        return
    yield scaling_table(curves)
    yield from _looked_at([p.speedup for c in curves for p in c.points])
    if doubted:
        yield doubts_of_curves(curves)


def scaling_table(curves: Sequence[Scaling]) -> Table:
    """A section for each curve, a row for each size."""
    bodies = []
    for curve in curves:
        halves = [figures.half_width(p.value) for p in curve.points]
        unit, texts = figures.column([p.value.value for p in curve.points], curve.unit, halves)
        title = f"{curve.system} · {curve.benchmark} {figures.metric(curve.metric)}"
        rows = tuple(_scaling_row(p, text) for p, text in zip(curve.points, texts, strict=True))
        bodies.append(TableBody(title, rows, figures.notes(unit, curve.better, curve.labels)))
    columns = ("", "ranks", "value", "speed-up", "95 % CI", "efficiency", "n")
    caption = "Scaling, relative to the smallest size"
    return Table(caption, columns, tuple(bodies), details=frozenset({1}))


def _scaling_row(point: ScalingPoint, value: str) -> TableRow:
    interval = figures.interval(point.speedup, to="–")
    return TableRow(
        (
            point.shape,
            str(point.ranks),
            value,
            f"{figures.ratio_value(point.speedup)}×",
            "" if interval == figures.NONE else interval,
            f"{point.efficiency.value * 100:.0f} %",
            str(point.value.n),
        )
    )


def requirements(held: Sequence[Requirement]) -> Iterator[Block]:
    """Each requirement with its measurement, its one-sided bounds and whether it holds; the doubts."""
    yield requirements_table(held)
    yield from _looked_at([r.estimate for r in held if r.estimate is not None])
    yield _by_code(((d, r) for r in held for d in r.doubts), len(held))


def _requirement_row(r: Requirement, texts: tuple[str, ...]) -> TableRow:
    place, verdict = f"{r.system}, {figures.where(r.point)}", f"{REQUIREMENT_SYMBOLS[r.verdict]} {r.verdict}"
    return TableRow((place, *texts, verdict), r.verdict)


def requirements_table(held: Sequence[Requirement]) -> Table:
    """A section for each requirement, a row for each place where it applies."""
    bodies = []
    for alike in gathered(held, lambda r: (r.point.benchmark, r.point.metric, r.expectation.written)):
        measured = figures.measured_together([r.estimate for r in alike])
        rows = tuple(_requirement_row(r, texts) for r, texts in zip(alike, measured, strict=True))
        point = alike[0].point
        title = f"{point.benchmark} {figures.metric(point.metric)} {alike[0].expectation.written}"
        bodies.append(TableBody(title, rows, "lower is better" if point.better == "lower" else ""))
    columns = ("", "measured", "95 % bounds", "n", "verdict")
    return Table("Requirements", columns, tuple(bodies), frozenset({0, 4}), verdicts=4)


def doubts_of_curves(curves: Sequence[Scaling]) -> Doubts:
    """The doubts about the curves' sizes, each doubt once."""
    every = ((doubt, p) for c in curves for p in c.points for doubt in p.doubts)
    return _by_code(every, sum(len(c.points) for c in curves))


def doubts_of_feedings(feedings: Sequence[Feeding]) -> Doubts:
    """The doubts about supplies and demands, each doubt once."""
    return _by_code(((doubt, feeding) for feeding in feedings for doubt in feeding.doubts), len(feedings))


def doubts_in_short(doubts: Iterable[Doubt]) -> Doubts:
    """Each code once, the gravest first, with its first evidence; the pages give the remedies."""
    first = {doubt.code: doubt for doubt in reversed(list(doubts))}
    return Doubts(tuple((doubt, 1) for doubt in first.values()), 1, brief=True)


def _by_code(doubts: Iterable[tuple[Doubt, object]], total: int) -> Doubts:
    first: dict[str, tuple[Doubt, int]] = {}
    for doubt, _ in doubts:
        kept, concerned = first.get(doubt.code, (doubt, 0))
        first[doubt.code] = (kept, concerned + 1)
    return Doubts(tuple(first.values()), total)


def _looked_at(estimates: Sequence[Estimate]) -> Iterator[Block]:
    """A line below a table whose intervals allow for interim looks."""
    if looked := looked_at(estimates):
        yield Paragraph(looked, "dim")


def _place(point: Point, shared: Labels) -> str:
    return f"{point.shape} {figures.labels(figures.own_labels(point.labels, shared))}".strip()

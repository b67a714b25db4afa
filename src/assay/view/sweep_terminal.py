"""The findings of a sweep, for the terminal: nodes by measurement, pairs as a heat map, and rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.analyse.sweeps.nodes import BORNE, BaselineChange, Crowd, Ring
from assay.analyse.sweeps.slow_parts import Pair
from assay.analyse.sweeps.verdicts import Pairs
from assay.view import figures
from assay.view.sentences import sweep as sweep_words
from assay.view.sentences.sweep import in_order

_MOST_COLUMNS = 10  # of the heat map with three decimals and names: 80 characters
_MOST_ROWS = 24  # of the heat map; the page has no limit
_SHADES = ((0.97, ""), (0.9, "yellow"), (0.75, "dark_orange"), (0.0, "bold red"))  # from this ratio up


def crowd(what: str, crowd: Crowd) -> RenderableType:
    """One measurement of the nodes, or their changes, compared with each other."""
    table = columns("node", "of the median", "runs", "", title=what)
    for standing in crowd.standings:
        verdict = Text("slow", style="bold red") if standing.slow else Text()
        table.add_row(standing.node, _shaded(standing.ratio), str(standing.runs), verdict)
    return Group(table, *(Text(line) for line in sweep_words.about(crowd)), Text())


def changes(changes: Sequence[BaselineChange], margin: float) -> RenderableType:
    """Each node compared with its own baseline."""
    table = columns("node", "of its baseline", "interval", "")
    for change in changes:
        verdict = Text("slower", style="bold red") if change.slower else Text(change.reason)
        table.add_row(change.node, _shaded(change.ratio.value), figures.interval(change.ratio), verdict)
    explanation = sweep_words.slower_than_before(margin)
    return Group(table, Text(explanation), Text())


def pairs(judged: Pairs) -> RenderableType:
    """The matrix as far as it fits, then what is slow in it and what remains unknown."""
    ratios, blame = judged.ratios, judged.blame
    nodes = in_order({node for pair in ratios for node in pair})
    parts: list[RenderableType] = []
    if len(nodes) <= _MOST_COLUMNS:
        parts += [
            Text("all-reduce, relative to the median healthy pair", style="bold"),
            _matrix(nodes, ratios),
        ]
    elif len(nodes) <= _MOST_ROWS:
        parts += [
            Text("all-reduce, percent of the median healthy pair, at most 99", style="bold"),
            *_triangle(nodes, ratios),
        ]
    parts += [
        Text(
            f"slow {kind}: {sweep_words.name(kind, slow)}: {sweep_words.details(kind, slow, judged)}",
            style="bold red",
        )
        for kind, slow in sweep_words.blamed(blame)
    ]
    return Group(*parts, *(Text(f"unknown: {line}") for line in blame.untold), Text())


def columns(first: str, *headings: str, title: str | None = None) -> Table:
    """An empty table: columns align right, except the first and any without a heading."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column(first)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    return table


def _matrix(nodes: Sequence[str], ratios: Mapping[Pair, float]) -> Table:
    table = columns("", *nodes)
    for a in nodes:
        cells = [_ratio(ratios, a, b) for b in nodes]
        table.add_row(a, *(Text("·") if cell is None else _shaded(cell) for cell in cells))
    return table


def _triangle(nodes: Sequence[str], ratios: Mapping[Pair, float]) -> list[Text]:
    """Each pair once, in three characters; columns use the rows' numbers."""
    lines = []
    for row, a in enumerate(nodes, start=1):
        line = Text(f"{row:3}", no_wrap=True, overflow="ellipsis")
        for b in nodes[: row - 1]:
            cell = _ratio(ratios, a, b)
            line.append(
                "  ·" if cell is None else f"{min(100 * cell, 99):3.0f}", "" if cell is None else _style(cell)
            )
        lines.append(line.append(f" {a}"))
    return [*lines, Text(" " * 3 + "".join(f"{column:3}" for column in range(1, len(nodes))), no_wrap=True)]


def _ratio(ratios: Mapping[Pair, float], a: str, b: str) -> float | None:
    return ratios.get((a, b), ratios.get((b, a)))


def _shaded(ratio: float) -> Text:
    return Text(f"{ratio:.3f}", style=_style(ratio))


def _style(ratio: float) -> str:
    return next(style for least, style in _SHADES if ratio >= least)


def ring_table(rings: Sequence[Ring]) -> RenderableType:
    """One line per ring, and what a slow one means."""
    table = columns("ring", "of its slowest pair", "interval", "", title="rings")
    for ring in rings:
        if ring.ratio is None:
            table.add_row(ring.name, "", "", ring.reason)
            continue
        verdict = Text("slow", style="bold red") if ring.slower else Text(ring.reason)
        table.add_row(ring.name, f"{ring.ratio.value:.3f}", figures.interval(ring.ratio), verdict)
    notes = [f"slow: by more than {figures.percent(BORNE)}; all intervals hold together with 95 % confidence"]
    if any(ring.slower for ring in rings):
        notes.append(
            "something its links share is overloaded when all are active: its switch, its uplink, its hosts"
        )
    return Group(table, *map(Text, notes), Text())

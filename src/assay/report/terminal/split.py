"""Time to train, split, for the terminal: factors, minutes, differences, and what may be claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from assay.analyse.mlperf.convergence import Convergence
from assay.analyse.mlperf.decompose import Decomposition, UndecomposedBenchmark
from assay.report.sentences import split
from assay.report.tables import Table

MOST_DIFFERENCES = 12  # shown; JSON and the report list all
_WIDEST_NAME = 14  # characters that fit in a column


def splits(
    made: Sequence[Decomposition],
    not_made: Sequence[UndecomposedBenchmark],
    convergences: Sequence[Convergence],
) -> RenderableType:
    """Each split with its tables and its claim, then what could not be split, then the references."""
    parts: list[RenderableType] = []
    for d in made:
        parts += ["", _text(split.sentence(d), style="bold")]
        if max(len(d.a.name), len(d.b.name)) > _WIDEST_NAME:
            parts.append(_text(f"A is {d.a.name}, B is {d.b.name}."))
            d = _short(d)
        parts += [_grid(split.factors(d)), _grid(split.minutes(d))]
        parts.append(_text(split.convergence_sentence(d)))
        if d.likeness.differences:
            parts += [_grid(split.differences(d), most=MOST_DIFFERENCES)]
        parts.append(_text(d.likeness.claim))
        parts += [_text(f"{s.name}: {note}.", style="dim") for s in (d.a, d.b) for note in s.notes]
    parts += [_text(f"{left.benchmark}: time to train is not split: {left.why}.") for left in not_made]
    parts += [_text(split.told(found)) for found in convergences]
    return Group(*parts)


def _short(d: Decomposition) -> Decomposition:
    return replace(d, a=replace(d.a, name="A"), b=replace(d.b, name="B"))


def _grid(table: Table, most: int | None = None) -> RenderableType:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="dim")
    grid.title = _text(table.caption.partition(": ")[2], style="dim")
    for at, name in enumerate(table.columns):
        grid.add_column(_text(name), justify="left" if at in table.words else "right", overflow="fold")
    rows = [row for body in table.bodies for row in body.rows]
    for row in rows[:most]:
        grid.add_row(*map(_text, row.cells))
    if most is None or len(rows) <= most:
        return grid
    return Group(grid, _text(f"and {len(rows) - most} more; --json lists all", style="dim"))


def _text(words: str, style: str = "") -> Text:
    """Text without markup; no control character from a log reaches the terminal."""
    return Text("".join(c if c.isprintable() or c == "\n" else "�" for c in words), style=style)

"""Blocks on a terminal: readable at 80 columns and without color; no control character reaches it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding, PaddingDimensions
from rich.table import Table as Grid
from rich.text import Text

from assay.view.blocks import (
    Block,
    Bullets,
    Chart,
    Claims,
    Doubts,
    Facts,
    Fold,
    Heading,
    Lead,
    Link,
    Paragraph,
    Pictures,
    Table,
    TableBody,
    TableRow,
    Verbatim,
    count_of,
    listed,
)
from assay.view.folding import FoldedText

STYLES: Final[dict[str, str]] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "invalid": "bold red",
    "biased": "bold yellow",
    "equivalent": "green",
    "faster": "bold green",
    "slower": "bold red",
    "undecided": "yellow",
    "holds": "green",
    "fails": "bold red",
}
PLAIN_WIDTH = 100  # columns if there is no terminal
WIDEST = 1_000_000  # columns of a table that is shown whole
_NARROWEST = 12  # of a first column next to text
WIDEST_HEADING = 12  # of a column of figures; a longer one is wrapped at its dashes


def plain(what: RenderableType) -> str:
    """What a command would print, without color."""
    console = Console(width=PLAIN_WIDTH, no_color=True, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(what, crop=False)
    return captured.get()


def shown(blocks: Iterable[Block], *, every: bool = False) -> RenderableType:
    """The blocks one below the other; `every`: what is folded, in full."""
    parts = _all_parts(blocks, every)
    return Group(*(styled(part) if isinstance(part, str) else part for part in parts))


def show(console: Console, blocks: Iterable[Block], *, every: bool = False) -> None:
    """Print the blocks. In a pipe whose reader states no width, a paragraph stays one line, as in a log."""
    one_line = not console.is_terminal and "COLUMNS" not in os.environ
    for part in _all_parts(blocks, every):
        if isinstance(part, str):
            sys.stdout.write(part)  # neither wrapped nor colored
            continue
        if one_line and isinstance(part, Padding) and isinstance(part.renderable, Text):
            part = Text.assemble(" " * part.left, part.renderable)
        width = console.width
        if isinstance(part, _Whole) and not console.is_terminal:
            console.width = WIDEST
        console.print(part, soft_wrap=isinstance(part, Text) and (one_line or bool(part.no_wrap)))
        console.width = width


class _Whole(Group):
    """A table that is as wide as it is where there is no terminal."""


def _all_parts(blocks: Iterable[Block], every: bool) -> Iterator[RenderableType]:
    """The parts of all blocks; above the first heading is no empty line."""
    parts = (part for block in blocks for part in _parts(block, every))
    return dropwhile(lambda part: isinstance(part, Text) and not part, parts)


def _parts(block: Block, every: bool) -> Iterator[RenderableType]:
    match block:
        case Table() if block.listing:
            yield from map(_unbroken, listed(block, None))
        case Table():
            grid: RenderableType = (
                _Sections(block) if any(body.title for body in block.bodies) else _grid(block)
            )
            yield _Whole(grid) if block.whole else grid
        case Verbatim(text):
            yield text
        case Claims():
            yield from _claims(block)
        case Doubts(doubts, _, brief):
            if doubts:
                yield from ([] if brief else [Text()])
                yield doubts_table(block)
        case Fold(short, full, more, how):
            for inner in full if every else short:
                yield from _parts(inner, every)
            if more and not every:
                yield styled(f"{more}; show them with {how}.")
        case _:
            yield from _texts(block)


def _texts(block: Block) -> Iterator[RenderableType]:
    match block:
        case Lead(text, tone, action):
            yield from (styled(f"{action}. {text}" if action else text, STYLES[tone]), Text())
        case Heading(text):
            yield from (Text(), styled(text, "bold"))
        case Paragraph(text, tone, indented, wraps):
            paragraph = styled(text, STYLES[tone]) if wraps else _unbroken(text, STYLES[tone])
            yield Padding(paragraph, (0, 0, 0, 2)) if indented else paragraph
        case Bullets(items):
            texts = (item.text if isinstance(item, Link) else item for item in items)
            yield from (styled(f"- {text}", STYLES["dim"]) for text in texts)
        case Facts(facts):
            yield from (styled(f"{fact.name}: {fact.text}") for fact in facts)
        case Chart(_, name, text) | Pictures(name, text):
            yield styled(f"{name}: {text}")


def _claims(block: Claims) -> Iterator[RenderableType]:
    for claim in block.claims:
        opening = f"{claim.symbol} {claim.verdict}".strip()
        yield styled(f"{opening}: {claim.sentence}", STYLES.get(claim.kind, ""))
        yield from map(_indented, filter(None, (claim.evidence, *claim.why, _codes(claim.doubts))))
    if block.doubts:
        yield _indented(_codes(block.doubts))


def _codes(codes: Sequence[str]) -> str:
    return f"doubts: {', '.join(codes)}" if codes else ""


def _indented(text: str) -> RenderableType:
    return Padding(styled(text, STYLES["dim"]), (0, 0, 0, 2))


def doubts_table(block: Doubts) -> RenderableType:
    """Each doubt once, the gravest first: its code, how many figures it concerns, the evidence, the remedy.

    A note has no exclamation mark.
    """
    from assay.analyse.doubts import KINDS, rank  # late: most answers that are shown have no doubt

    table = Grid.grid(padding=(0, 1), expand=False)
    table.add_column("code", style="yellow", no_wrap=True)
    table.add_column("evidence")
    for doubt, places in sorted(block.doubts, key=lambda pair: rank(pair[0].code)):
        is_note = KINDS[doubt.code].severity == "note"
        concerned = count_of(places)
        reach = "" if concerned == block.total else f" (this and similar: {concerned} of {block.total})"
        evidence = doubt.evidence if block.brief else f"{doubt.evidence}{reach}. {doubt.remedy}."
        if not (block.brief and is_note):
            table.add_row(styled(f"{'·' if is_note else '!'} {doubt.code}"), FoldedText(printable(evidence)))
    return table


class _Sections:
    """Rows under headings as wide as the table: one grid per section, all with the same columns."""

    def __init__(self, block: Table) -> None:
        self._block = block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The grids; the first column is as wide as its rows need, or as the others leave room for."""
        yield _section_grids(self._block, options.max_width)


def _section_grids(block: Table, room: int) -> RenderableType:
    """One grid if all columns are text and too wide: then each column takes its share."""
    kept = [column for column in range(1, len(block.columns)) if column not in block.details]
    columns = [block.columns[column] for column in kept]
    rows = [row for body in block.bodies for row in body.rows]
    widths = [
        max(min(len(name), WIDEST_HEADING), *(len(row.cells[column]) for row in rows))
        for column, name in zip(kept, columns, strict=True)
    ]
    left = [column in block.words for column in kept]
    first = min(max(len(row.cells[0]) for row in rows) + 1, room - sum(width + 2 for width in widths))
    if first < _NARROWEST and len(block.words) == len(block.columns):
        return _grid(block)
    widths, columns, left = [max(first, 1), *widths], ["", *columns], [True, *left]
    parts: list[RenderableType] = [styled(block.caption, "dim")] if block.caption else []
    if any(columns):
        parts.append(_columns(columns, widths, left, show_header=True))
    for body in block.bodies:
        grid = _columns(columns, widths, left, show_header=False)
        for row in body.rows:
            place = FoldedText(printable(f" {row.cells[0]}"))
            grid.add_row(place, *(_cell(block, row, column) for column in kept))
        parts += [_heading(body), grid] if body.title else [grid]
    return Group(*parts)


def _cell(block: Table, row: TableRow, column: int) -> RenderableType:
    text = printable(row.cells[column])
    if column == block.verdicts and row.verdict:
        return Text(text, style=STYLES[row.verdict])
    return FoldedText(text, STYLES[row.tones.get(column, "")])


def _columns(
    columns: Sequence[str], widths: Sequence[int], left: Sequence[bool], *, show_header: bool
) -> Grid:
    grid = Grid(box=None, padding=(0, 1), pad_edge=False, header_style="dim", show_header=show_header)
    for name, width, is_left in zip(columns, widths, left, strict=True):
        heading = FoldedText(printable(name))
        grid.add_column(heading, width=width, justify="left" if is_left else "right")
    return grid


def _heading(body: TableBody) -> Text:
    text = styled(body.title, "bold")
    if body.notes:
        text.append(styled(f" ({body.notes})", "not bold dim"))
    return text


def _grid(block: Table) -> RenderableType:
    """A table without sections, or of long texts: columns are as wide as their content needs."""
    kept = [column for column in range(len(block.columns)) if column not in block.details]
    padding: PaddingDimensions = (0, 0, 0, 1) if block.dense else (0, 1)
    grid = Grid(box=None, padding=padding, pad_edge=False, header_style="dim", show_header=any(block.columns))
    for column in kept:
        heading = FoldedText(printable(block.columns[column]))
        grid.add_column(heading, justify="left" if column in block.words else "right")
    for body in block.bodies:
        if body.title:
            grid.add_row()
            grid.add_row(_heading(body))
        for row in body.rows:
            grid.add_row(*(_cell(block, row, column) for column in kept))
    return Group(styled(block.caption, "dim"), grid) if block.caption else grid


def styled(text: str, style: str = "") -> Text:
    """Text without markup."""
    return Text(printable(text), style=style)


def _unbroken(text: str, style: str = "") -> Text:
    """Text that only the terminal itself breaks."""
    line = styled(text, style)
    line.no_wrap, line.overflow = True, "ignore"
    return line


def printable(text: str) -> str:
    """The text without control characters: none from a log reaches the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)

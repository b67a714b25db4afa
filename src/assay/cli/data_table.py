"""A table of what a catalog answers: words are folded rather than cut, and numbers are whole."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WIDEST = 1_000_000  # characters of a line that no terminal shows
LONGEST_CELL = 10_000  # characters; longer ones are in --json


class TableColumn(NamedTuple):
    """A column's heading, and whether it has numbers."""

    name: str
    number: bool = False


class DataTable:
    """Rows of text, which come from files of others."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        from rich.table import Table

        self._table = Table(box=None, pad_edge=False, header_style="dim")
        for column in columns:
            self._table.add_column(
                visible(column.name),
                justify="right" if column.number else "left",
                no_wrap=column.number,
                overflow="fold",
            )

    def add(self, row: Iterable[str]) -> None:
        """Add a row."""
        self._table.add_row(*(visible(_short(cell)) for cell in row))

    def show(self) -> None:
        """Print it: as wide as the terminal, or as wide as it is where there is none."""
        from assay.cli.console import Console

        width = None if sys.stdout.isatty() else WIDEST
        Console(highlight=False, markup=False, width=width).print(self._table)


def _short(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}… ({len(cell):,} characters)"


def visible(text: str) -> str:
    """The text with each control character as its escape: none reaches the terminal.

    >>> visible("a\x1b[31m")
    'a\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

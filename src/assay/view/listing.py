"""A list as aligned lines of plain text: made without a table library, which takes longer than most lists."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.view.blocks import Table

_NARROW = 24  # columns; a last cell with fewer is placed below its row


def listed(block: Table, width: int | None) -> Iterator[str]:
    """The lines of a table.

    width  at which the last cell of a row wraps, below its column or, if that is narrow, below the row; None:
           nothing wraps
    """
    rows = [block.columns] if any(block.columns) else []
    rows += [row.cells for body in block.bodies for row in body.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(block.columns) - 1)]
    indent = sum(widths) + 2 * len(widths)
    is_number = len(widths) not in block.words
    last_width = max(len(row[-1]) for row in rows) if is_number else 0
    for *cells, last in rows:
        last = last.rjust(last_width)
        padded = (
            f"{cell:{wide}}" if place in block.words else f"{cell:>{wide}}"
            for place, (cell, wide) in enumerate(zip(cells, widths, strict=True))
        )
        line = "".join(f"{cell}  " for cell in padded)
        if width is None or indent + len(last) <= width:
            yield (line + last).rstrip()
        elif width - indent >= _NARROW:
            yield from textwrap.wrap(last, width, initial_indent=line, subsequent_indent=" " * indent)
        else:
            yield line.rstrip()
            yield from textwrap.wrap(last, width, initial_indent="    ", subsequent_indent="    ")

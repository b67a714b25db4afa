"""Blocks as HTML without script and style: for a page, and for a cell of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from assay.view.blocks import Block, Doubts, Fold, Lead, Paragraph, Table, TableRow


def fragment(blocks: Iterable[Block]) -> str:
    """The blocks one after another; what is folded is in a `details` element."""
    return "".join(part for block in blocks for part in _parts(block))


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Lead(text):
            yield f"<p><strong>{escape(text)}</strong></p>"
        case Paragraph(text, tone):
            lines = escape(text).replace("\n", "<br/>")
            yield f"<p>{lines}</p>" if tone in ("", "dim") else f"<p><strong>{lines}</strong></p>"
        case Table():
            yield table(block)
        case Doubts(doubts):
            if doubts:
                items = (f"<li>{_doubt(d.code, d.evidence, d.remedy)}</li>" for d, _ in doubts)
                yield f"<p>Doubts:</p><ul>{''.join(items)}</ul>"
        case Fold(short, full, more):
            yield fragment(short)
            if more:
                yield f"<details><summary>{escape(more)}</summary>{fragment(full)}</details>"


def _doubt(code: str, evidence: str, remedy: str) -> str:
    return f"<code>{escape(code)}</code>: {escape(evidence)}. {escape(remedy)}."


def table(block: Table) -> str:
    """One table, with all columns."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in block.columns)
    rows = []
    for body in block.bodies:
        if body.title:
            rows.append(f'<tr><th colspan="{len(block.columns)}">{escape(body.heading)}</th></tr>')
        rows += [_row(row) for row in body.rows]
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(row: TableRow) -> str:
    first, *rest = map(escape, row.cells)
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'

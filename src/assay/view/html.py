"""Blocks as HTML without script and style: for a page, and for a cell of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from assay.view.blocks import Block, Doubts, Fold, Heading, Lead, Paragraph, Table, TableRow, Verbatim

if TYPE_CHECKING:
    from assay.records import Doubt

_CODE = re.compile("`([^`]+)`")


def fragment(blocks: Iterable[Block], doubts_url: str = "", heading: str = "") -> str:
    """The blocks one after another; what is folded is in a `details` element.

    doubts_url  of the page whose parts explain each doubt; "" if there is none
    heading     of the section that they stand in
    """
    parts: list[str] = []
    for block in blocks:
        heading = block.text if isinstance(block, Heading) else heading
        parts += _parts(block, doubts_url, heading)
    return "".join(parts)


def _parts(block: Block, doubts_url: str, heading: str) -> Iterator[str]:
    match block:
        case Lead(text):
            yield f"<p><strong>{escape(text)}</strong></p>"
        case Heading(text):
            yield f"<h3>{escape(text)}</h3>"
        case Paragraph(text, tone, indented):
            lines = _CODE.sub(r"<code>\1</code>", escape(text).strip()).replace("\n", "<br/>")
            kind = ' class="evidence"' if tone == "dim" or indented else ""
            yield f"<p{kind}>{lines}</p>" if tone in ("", "dim") else f"<p><strong>{lines}</strong></p>"
        case Table():
            yield table(block, heading)
        case Doubts(doubts):
            if doubts:
                items = (f"<li>{_doubt(d, doubts_url)}</li>" for d, _ in doubts)
                yield f"<p>Doubts:</p><ul>{''.join(items)}</ul>"
        case Verbatim(text):
            yield f"<pre>{escape(text)}</pre>"
        case Fold(short, full, more):
            yield fragment(short, doubts_url, heading)
            if more:
                inner = fragment(full, doubts_url, heading)
                yield f"<details><summary>{escape(more)}</summary>{inner}</details>"


def _doubt(doubt: Doubt, doubts_url: str) -> str:
    code = f"<code>{escape(doubt.code)}</code>"
    linked = f'<a href="{doubts_url}/{escape(doubt.code)}">{code}</a>' if doubts_url else code
    return f"{linked}: {escape(doubt.evidence)}. {escape(doubt.remedy)}."


def table(block: Table, heading: str = "") -> str:
    """One table, with all columns.

    heading  of its section, which names a table without a caption
    """
    number = ["" if column in block.words else ' class="n"' for column in range(len(block.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' if name else "<td></td>"
        for name, kind in zip(block.columns, number, strict=True)
    )
    bodies = []
    for body in block.bodies:
        title = f'<th scope="rowgroup" colspan="{len(block.columns)}">{escape(body.heading)}</th>'
        bodies.append(f'<tr class="group">{title}</tr>' if body.title else "")
        bodies += [_row(row, number) for row in body.rows]
        bodies.append("</tbody><tbody>" * (body is not block.bodies[-1]))
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    label = escape(block.caption or heading or ", ".join(filter(None, block.columns)))
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(bodies)}</tbody></table></div>"
    )


def _row(row: TableRow, number: list[str]) -> str:
    first, *rest = map(escape, row.cells)
    cells = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(rest, number[1:], strict=True))
    verdict = f' class="{escape(row.verdict)}"' if row.verdict else ""
    return f'<tr{verdict}><th scope="row">{first}</th>{cells}</tr>'

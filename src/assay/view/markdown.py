"""Blocks as Markdown, as short as a comment on a pull request: without charts, and without what is bulky."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from assay import redact
from assay.view.blocks import (
    Block,
    Bullets,
    Claim,
    Claims,
    Doubts,
    Facts,
    Fold,
    Heading,
    Lead,
    Link,
    NamedText,
    Paragraph,
    Table,
    Verbatim,
    count_of,
)

if TYPE_CHECKING:
    from assay.records import Doubt

MOST_ROWS = 40  # a longer table is collapsed in the comment
_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]<>#|~])")
_CODE = re.compile("`([^`]+)`")


def text(title: str, blocks: Iterable[Block], *, footer: str, hide: Callable[[str], str] = str) -> str:
    """All blocks below a title; ends in a newline. `hide` removes names; secrets are removed in any case."""
    parts = [f"## {_escape(title)}", *_parts(blocks), _marked(footer)]
    return redact.text(hide("\n\n".join(parts) + "\n"))


def _parts(blocks: Iterable[Block]) -> Iterator[str]:
    """The text of each block; a heading with nothing below it is left out."""
    headings: list[str] = []  # of the section and within it, which have nothing below them yet
    for block in blocks:
        if isinstance(block, Heading):
            level = "###" if block.section else "####"
            outer = [] if block.section else [text for text in headings if text.startswith("### ")]
            headings = [*outer, f"{level} {_escape(block.text)}"]
            continue
        for part in filter(None, _of(block)):
            yield from (*headings, part)
            headings = []


def _of(block: Block) -> Iterator[str]:
    match block:
        case Lead(text, _, action):
            yield f"**{_escape(action)}.** {_escape(text)}" if action else _escape(text)
        case Paragraph(text, tone):
            lines = "  \n".join(map(_marked, text.strip().split("\n")))
            yield f"**{lines}**" if lines and tone in ("strong", "fails") else lines
        case Bullets(items):
            yield "\n".join(
                f"- {_escape(item.text) if isinstance(item, Link) else _marked(item)}" for item in items
            )
        case Facts(facts, short):
            yield ", ".join(map(_fact, facts)) if short else "\n".join(f"- {_fact(fact)}" for fact in facts)
        case Table():
            yield _table(block)
        case Claims():
            yield _claims(block)
        case Doubts():
            yield "\n".join(line for group in block.by_code() for line in _doubts(group))
        case Verbatim(text):
            yield _fenced(text)
        case Fold(short, full, more, _, bulky):
            yield from _parts(short)
            if more and not bulky:
                inner = "\n\n".join(_parts(full))
                yield f"<details><summary>{_escape(more)}</summary>\n\n{inner}\n\n</details>"


def _fact(fact: NamedText) -> str:
    return f"{_escape(fact.name)}: {_marked(fact.text)}"


def _doubts(group: Sequence[tuple[Doubt, tuple[str, ...] | int]]) -> Iterator[str]:
    """One code: its remedy, and each evidence with how many figures it concerns."""
    yield f"- **{group[0][0].code}**: {_marked(group[0][0].remedy)}."
    for doubt, places in group:
        count = count_of(places)
        reach = f" ({count} {'figure' if count == 1 else 'figures'})" if count else ""
        yield f"  - {_marked(doubt.evidence)}{reach}"


def _claims(block: Claims) -> str:
    lines = [line for claim in block.claims for line in _claim(claim)]
    if block.doubts:
        whose = "all of these" if len(block.claims) > 1 else "this"
        lines.append(f"\n_Doubts about {whose}: {', '.join(block.doubts)}._")
    return "\n".join(lines)


def _claim(claim: Claim) -> Iterator[str]:
    doubts = f" _Doubts: {', '.join(claim.doubts)}._" if claim.doubts else ""
    verdict = " ".join(filter(None, (claim.symbol, claim.verdict, claim.severity.upper())))
    yield f"- **{_escape(verdict)}**: {_escape(claim.sentence)} {_escape(claim.evidence)}.{doubts}"
    yield from (f"  - {_escape(reason)}" for reason in claim.why)


def _table(table: Table) -> str:
    width = len(table.columns)
    ruler = "|" + "|".join(":--" if column in table.words else "--:" for column in range(width)) + "|"
    rows = []
    for body in table.bodies:
        if body.title:
            rows.append(_row((f"**{_escape(body.heading)}**", *[""] * (width - 1))))
        rows += [_row(map(_escape, row.cells)) for row in body.rows]
    caption = _escape(table.caption)
    lines = "\n".join([_row(map(_escape, table.columns)), ruler, *rows])
    if len(rows) > MOST_ROWS:
        return f"<details><summary>{caption} ({len(rows)} rows)</summary>\n\n{lines}\n\n</details>"
    return f"#### {caption}\n\n{lines}" if caption else lines


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _fenced(content: str) -> str:
    """A code block whose fence is longer than any fence in the content."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{content.rstrip()}\n{fence}"


def _escape(text: str) -> str:
    """Text that Markdown and HTML show unchanged, on one line."""
    return _escape_part(" ".join(text.split()))


def _marked(text: str) -> str:
    """The same with code between backticks."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(f"`{part}`" if index % 2 else _escape_part(part) for index, part in enumerate(parts))


def _escape_part(text: str) -> str:
    return _MEANS_SOMETHING.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;")

"""Markdown that several pages of the reference share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_FIELD = re.compile(r"(?P<name>[A-Za-z_][\w, ]*?)(?P<gap> {2,}| $)(?P<meaning>\S.*)")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table's lines; a bar inside a cell is escaped."""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def of_docstring(text: str) -> Iterator[str]:
    """A docstring's lines as Markdown: fields as a list, examples as code, everything else unchanged.

    A field is a line `name  meaning`, separated by two or more spaces, and indented lines that continue it.
    """
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            block.append(line)
            continue
        if block:
            yield from _paragraph(block)
            yield ""
        block = []


def _paragraph(block: list[str]) -> Iterator[str]:
    if block[0].lstrip().startswith(">>>"):
        yield from ("```python", *block, "```")
    elif all(line.startswith("    ") for line in block):
        yield from ("```text", *(line[4:] for line in block), "```")
    elif _FIELD.fullmatch(block[0]):
        for line in block:
            found = _FIELD.fullmatch(line)
            yield f"- `{found['name']}`: {found['meaning']}" if found else f"  {line.strip()}"
    else:
        yield from block


def spoken(pattern: str) -> str:
    """A regular expression as the texts that it matches, each as code, without its operators.

    >>> spoken(r"partition (name )?specified|no such (queue|host)")
    '`partition name specified`, `no such queue|host`'
    """
    depth, parts = 0, [""]
    for character in pattern:
        depth += (character == "(") - (character == ")")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return ", ".join(f"`{_plain(part)}`" for part in parts)


def _plain(pattern: str) -> str:
    words = re.sub(r"\\[Sdw][+*]?|\.\*\s?", "…", pattern.removeprefix("^"))
    words = re.sub(r"\[(.)[^\]]*\]", r"\1", words)
    return re.sub(r"[()?^$`\\]", "", words).replace("|", "/")

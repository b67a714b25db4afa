"""The blocks that an answer consists of: what to say and in which order, not how it looks.

A block is made once; each renderer shows it: `terminal.py` with rich, `html.py` for a page or a notebook's
cell, `markdown.py` for a comment. It may carry a hint, such as what is folded, and no renderer's code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from assay.records import Doubt

# of a whole paragraph or a cell: how serious it is, or a verdict
Tone = Literal[
    "", "strong", "dim", "invalid", "biased", "equivalent", "faster", "slower", "undecided", "holds", "fails"
]

_NARROW = 24  # columns; a last cell with fewer is placed below its row


@dataclass(frozen=True)
class Lead:
    """The first thing that is read, in a sentence or two, with room below it.

    action  what to do, in a few words before the text
    """

    text: str
    tone: Tone = "strong"
    action: str = ""


@dataclass(frozen=True)
class Heading:
    """What the blocks up to the next heading are about.

    section  anchor of a part of a page, which its navigation lists; "" for a heading within a part
    """

    text: str
    section: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Text, with code between backticks; lines are kept. `indented` below the paragraph that it belongs to.

    wraps  False for what is copied, such as a command: a terminal doesn't break it
    """

    text: str
    tone: Tone = ""
    indented: bool = False
    wraps: bool = True


@dataclass(frozen=True)
class Link:
    """Where more is: an address that only a page can open."""

    text: str
    url: str


@dataclass(frozen=True)
class Bullets:
    """A list of short texts."""

    items: tuple[str | Link, ...]


@dataclass(frozen=True)
class NamedText:
    """A name and what is known under it, with more behind the links."""

    name: str
    text: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Facts one below the other, or side by side if their texts are short."""

    facts: tuple[NamedText, ...]
    short: bool = True


def facts_of(pairs: Iterable[tuple[str, str]]) -> Facts:
    """Short facts from names and texts."""
    return Facts(tuple(NamedText(name, text) for name, text in pairs))


@dataclass(frozen=True)
class TableRow:
    """Texts, the first of which is the row's heading.

    verdict  if the row has one
    tones    of single cells, by column
    """

    cells: tuple[str, ...]
    verdict: str = ""
    tones: Mapping[int, Tone] = field(default_factory=dict)


@dataclass(frozen=True)
class TableBody:
    """Rows under a common heading, "" for none, and what is to be known about all of them, such as a unit."""

    title: str
    rows: tuple[TableRow, ...]
    notes: str = ""

    @property
    def heading(self) -> str:
        """The title with the notes in parentheses."""
        return f"{self.title} ({self.notes})" if self.notes else self.title


@dataclass(frozen=True)
class Table:
    """A table with its caption, "" for none.

    words     columns (from 0) that hold text, not numbers
    details   columns that are left out where there is little room
    verdicts  the column with each row's verdict
    whole     shown as wide as it is where there is no terminal
    listing   rows are lines of plain text whose last cell alone is wrapped: what is copied stays whole
    dense     of so many narrow columns that a terminal leaves no more than a space between them
    """

    caption: str
    columns: tuple[str, ...]
    bodies: tuple[TableBody, ...]
    words: frozenset[int] = frozenset({0})
    details: frozenset[int] = frozenset()
    verdicts: int | None = None
    whole: bool = False
    dense: bool = False
    listing: bool = False


@dataclass(frozen=True)
class Verbatim:
    """The text of a file or a command, for another program: shown as it is."""

    text: str


@dataclass(frozen=True)
class Claim:
    """The answer to one question, in a sentence.

    kind     a verdict, or `scaling`
    verdict  the same as text, or the efficiency
    symbol   so that nobody needs color to read a verdict; "" for a claim without one
    doubts   codes of its doubts
    why      observations that can explain it, each a sentence
    severity of its gravest doubt, if that is `invalid` or `biased`
    """

    kind: str
    verdict: str
    symbol: str
    sentence: str
    evidence: str
    doubts: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    severity: str = ""


@dataclass(frozen=True)
class Claims:
    """Claims of one kind; `doubts` concern every one of them and are shown once."""

    claims: tuple[Claim, ...]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Doubts:
    """Reasons not to take figures at face value.

    doubts  each with the places that it concerns, or the number of them
    total   figures
    brief   the evidence alone, without remedies and notes
    """

    doubts: tuple[tuple[Doubt, tuple[str, ...] | int], ...]
    total: int
    brief: bool = False

    def by_code(self) -> Iterator[list[tuple[Doubt, tuple[str, ...] | int]]]:
        """The doubts of each code, the gravest code first, and its most frequent evidence first."""
        from assay.analyse.doubts import rank  # late: most answers that are shown have no doubt

        groups: dict[str, list[tuple[Doubt, tuple[str, ...] | int]]] = {}
        for doubt, places in self.doubts:
            groups.setdefault(doubt.code, []).append((doubt, places))
        for code in sorted(groups, key=rank):
            yield sorted(groups[code], key=lambda pair: -count_of(pair[1]))


def count_of(places: tuple[str, ...] | int) -> int:
    """How many places these are."""
    return places if isinstance(places, int) else len(places)


@dataclass(frozen=True)
class Chart:
    """One chart.

    spec   Vega-Lite as plain data, with its rows inside
    words  what the chart shows, with its values, for people who can't see it
    wide   it takes the full width of the page
    """

    kind: str
    caption: str
    words: str
    spec: Mapping[str, Any]
    wide: bool = False

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, Any]:
        from assay.view.vega_lite import bundle

        return bundle(self.caption, self.words, self.spec)


@dataclass(frozen=True)
class Picture:
    """One picture: JPEG, and what it shows, for who can't see it."""

    text: str
    jpeg: bytes


@dataclass(frozen=True)
class Pictures:
    """Pictures of one thing, side by side: its name, and what there is to say of it."""

    name: str
    text: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks in short, and in full for who wants more.

    more   what the full form has in addition: `3 more comparisons of other metrics`
    how    what shows it on a terminal: `--all or --metric NAME`
    bulky  left out of a comment
    """

    short: tuple[Block, ...]
    full: tuple[Block, ...]
    more: str
    how: str = "--all"
    bulky: bool = False


Block = (
    Lead
    | Heading
    | Paragraph
    | Bullets
    | Facts
    | Table
    | Verbatim
    | Claims
    | Doubts
    | Chart
    | Pictures
    | Fold
)


def listed(block: Table, width: int | None) -> Iterator[str]:
    """The lines of a table, without a table library, which takes longer than most lists.

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

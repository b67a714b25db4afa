"""The blocks that an answer consists of: what to say and in which order, not how it looks.

A block is made once; each renderer shows it: `terminal.py` with rich, `html.py` for a page or a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from assay.records import Doubt

# of a whole paragraph: how serious it is, or a verdict
Tone = Literal[
    "", "strong", "dim", "invalid", "biased", "equivalent", "faster", "slower", "undecided", "holds", "fails"
]


@dataclass(frozen=True)
class Lead:
    """What to do, in a sentence or two: the first thing that is read, with room below it."""

    text: str
    tone: Tone = "strong"


@dataclass(frozen=True)
class Heading:
    """What the blocks up to the next heading are about."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Text; lines are kept. `indented` below the paragraph that it belongs to.

    wraps  False for what is copied, such as a command: a terminal doesn't break it
    """

    text: str
    tone: Tone = ""
    indented: bool = False
    wraps: bool = True


@dataclass(frozen=True)
class TableRow:
    """Texts, the first of which is the row's heading; `verdict` if the row has one."""

    cells: tuple[str, ...]
    verdict: str = ""


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
    """

    caption: str
    columns: tuple[str, ...]
    bodies: tuple[TableBody, ...]
    words: frozenset[int] = frozenset({0})
    details: frozenset[int] = frozenset()
    verdicts: int | None = None
    whole: bool = False


@dataclass(frozen=True)
class Verbatim:
    """The text of a file, for another program: shown as it is."""

    text: str


@dataclass(frozen=True)
class Doubts:
    """Reasons not to take figures at face value.

    doubts  each with how many of the figures it concerns
    of      figures in total
    brief   the evidence alone, without remedies and notes
    """

    doubts: tuple[tuple[Doubt, int], ...]
    of: int
    brief: bool = False


@dataclass(frozen=True)
class Fold:
    """Blocks in short, and in full for who wants more.

    more  what the full form has in addition: `3 more comparisons of other metrics`
    how   what shows it on a terminal: `--all or --metric NAME`
    """

    short: tuple[Block, ...]
    full: tuple[Block, ...]
    more: str
    how: str = "--all"


Block = Lead | Heading | Paragraph | Table | Doubts | Fold | Verbatim

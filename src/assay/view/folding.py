"""Text wrapped in a narrow column: lines break at spaces, else after the dashes and dots of a name.

>>> folded("training-batch_size32 on 2 workers", 14)
['training-', 'batch_size32', 'on 2 workers']
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_PART = re.compile(r"[^-_./:=,]*[-_./:=,]*")


class FoldedText:
    """A text that wraps to the width available."""

    def __init__(self, text: str, style: str = "") -> None:
        self.words, self.style = text, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines for the available width."""
        lines = [line for text in self.words.split("\n") for line in folded(text, options.max_width)]
        yield Text("\n".join(lines), style=self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the width of the widest part to that of the widest line."""
        lines = self.words.split("\n")
        parts = (len(part) for line in lines for word in line.split() for part in _parts(word))
        return Measurement(max(parts, default=0), max(map(len, lines))).with_maximum(options.max_width)


def folded(text: str, width: int) -> list[str]:
    """The text as lines of at most `width` characters, each with the text's own indentation.

    A part that is wider than that and has no place to break is shortened in its middle.
    """
    indent = text[: len(text) - len(text.lstrip())]
    room = max(width - len(indent), 1)
    lines = [""]
    for word in text.split():
        space = " " if lines[-1] else ""
        if len(lines[-1]) + len(space) + len(word) <= room:
            lines[-1] += space + word
            continue
        if lines[-1]:
            lines.append("")
        for part in _parts(word):
            if lines[-1] and len(lines[-1]) + len(part) > room:
                lines.append("")
            lines[-1] += shortened(part, room)
    return [indent + line for line in lines]


def shortened(part: str, width: int) -> str:
    """The part, with its middle left out if it is too wide.

    >>> shortened("bandwidth", 6)
    'ban…th'
    """
    if len(part) <= width:
        return part
    return part[: width // 2] + "…" + part[len(part) - (width - width // 2 - 1) :]


def _parts(word: str) -> Iterator[str]:
    """Parts between which a line may break."""
    return (part for part in _PART.findall(word) if part)

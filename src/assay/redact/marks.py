"""Replacements of secrets: `(redacted)`, or a numbered mark if two secrets must stay distinct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

REDACTED = "(redacted)"
MARK = re.compile(r"\(redacted(?:-(?P<number>\d+))?\)")
Span = tuple[int, int]
Mark = Callable[[str], str]


def plain(_secret: str) -> str:
    """The mark of running text, the same for each secret."""
    return REDACTED


def numbered(number: int) -> str:
    """The mark of a secret that has a number. It has no space, so it stays one word in a command line.

    >>> numbered(2)
    '(redacted-2)'
    """
    return f"(redacted-{number})"


class NumberedMarks:
    """Marks numbered from 1, in order of appearance."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def __call__(self, secret: str) -> str:
        """The secret's mark; the same secret always has the same mark."""
        return numbered(self._of.setdefault(secret, len(self._of) + 1))


def replaced(text: str, spans: Iterable[Span], mark: Mark) -> str:
    """The text with a mark in place of each span; overlapping spans are one secret. Marks are unchanged."""
    pieces, end = [], 0
    for begin, after in _merged(spans):
        secret = text[begin:after]
        pieces += [text[end:begin], secret if MARK.fullmatch(secret) else mark(secret)]
        end = after
    return "".join([*pieces, text[end:]])


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    begin, end = 0, 0
    for first, after in sorted(spans):
        if first >= end:
            if end:
                yield begin, end
            begin = first
        end = max(end, after)
    if end:
        yield begin, end

"""What is in place of a secret: `(redacted)`, or a numbered mark where two secrets must stay two."""

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
    """The mark of a secret that has a number. It has no space: in a command line it stays one word.

    >>> numbered(2)
    '(redacted-2)'
    """
    return f"(redacted-{number})"


class NumberedMarks:
    """Marks with numbers from 1, in the order in which the secrets come."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def __call__(self, secret: str) -> str:
        """The secret's mark; the same secret has the same."""
        return numbered(self._of.setdefault(secret, len(self._of) + 1))


def replaced(text: str, spans: Iterable[Span], mark: Mark) -> str:
    """The text with a mark in place of each span; spans that overlap are one secret. A mark stays."""
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

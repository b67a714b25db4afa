"""Bounds of what may be chosen, and ranges within them: `0..100000`, `1%..60%`, `5000..`, `7`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MOST_DIGITS: Final = 15  # beyond that, a float is not the number that was written
_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_RANGE: Final = re.compile(rf"({_NUMBER})?(%?)\.\.({_NUMBER})?(%?)", re.ASCII)
_ALONE: Final = re.compile(rf"({_NUMBER})(%?)", re.ASCII)


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; None: no end on that side.

    share  they are percentages of a frame's pixels
    """

    low: float | None
    high: float | None
    share: bool = False

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return self._end(self.low)
        return f"{self._end(self.low)}..{self._end(self.high)}"

    def _end(self, value: float | None) -> str:
        return "" if value is None else f"{plain_number(value)}{'%' if self.share else ''}"

    def contains(self, value: float) -> bool:
        """Whether a number is within."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def narrowed(self, chosen: Range) -> Range | None:
        """A range within this one, its open ends closed by this one's; None if it isn't within."""
        if chosen.share != self.share:
            return None
        low = self.low if chosen.low is None else chosen.low
        high = self.high if chosen.high is None else chosen.high
        inside = (low is None or self.contains(low)) and (high is None or self.contains(high))
        return Range(low, high, self.share) if inside and (None in (low, high) or low <= high) else None  # type: ignore[operator]


def parse_range(text: str) -> Range:
    """`5000..6000`, `1%..5%`, `5000..`, `..6000` or `7`. Raises ValueError on anything else."""
    wrong = f"{text[:60]!r} is not a range; write it as 5000..6000, 1%..5%, 5000.. or 7"
    if alone := _ALONE.fullmatch(text.strip()):
        value = _number(alone[1], wrong)
        return Range(value, value, bool(alone[2]))
    match = _RANGE.fullmatch(text.strip())
    if match is None or (match[1] is None and match[3] is None):
        raise ValueError(wrong)
    ends = [(number, sign) for number, sign in ((match[1], match[2]), (match[3], match[4])) if number]
    signs = {sign for _, sign in ends}
    if len(signs) > 1 or (match[1] is None and match[2]) or (match[3] is None and match[4]):
        raise ValueError(f"{text[:60]!r}: write % at both ends or at neither, like 1%..5%")
    low, high = (None if end is None else _number(end, wrong) for end in (match[1], match[3]))
    if low is not None and high is not None and low > high:
        raise ValueError(f"{text[:60]!r} begins above its end; write the smaller number first")
    return Range(low, high, signs == {"%"})


def plain_number(value: float) -> str:
    """Without an exponent, and without a point if it is whole.

    >>> plain_number(100000.0), plain_number(0.25)
    ('100000', '0.25')
    """
    return str(int(value)) if value == int(value) else f"{value:.{MOST_DIGITS}f}".rstrip("0")


def _number(text: str, wrong: str) -> float:
    if sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError(f"{wrong}, with at most {MOST_DIGITS} digits")
    return float(text)

"""MLPerf's rounds in order."""

from __future__ import annotations

import re

Round = tuple[int, int]


def number(round_: str | None) -> Round | None:
    """A round as a comparable number; None if it is unknown or not written like one.

    >>> number("v3.1"), number("v0.5") < number("v1.0"), number("spring")
    ((3, 1), True, None)
    """
    match = re.fullmatch(r"v(\d{1,3})\.(\d{1,3})", round_ or "")
    return (int(match[1]), int(match[2])) if match else None

"""Conversions at the edges; internally, everything is in SI base units (bytes, seconds, hertz, FLOP).

Units are written as they are printed: `images/s`, `MB/s`, `GB/s`, `GFLOP/s`, `s`, `ms`, `min`, `%`.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LEAST_PLAIN, _MOST_PLAIN = 1e-12, 1e15  # smaller or larger values are written with an exponent
_MOST_SHARE = 10_000.0  # that is worth its digits
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")


@dataclass(frozen=True)
class Quantity:
    """A number and its unit as written."""

    value: float
    unit: str


def parse_quantity(text: str) -> Quantity:
    """`"11000 MB/s"` as number and unit. Raises ValueError unless it starts with a finite number."""
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    if match is None or not math.isfinite(float(match[1])):
        raise ValueError(f"{text!r} is not a quantity; write a number and a unit, such as 11000 MB/s")
    return Quantity(float(match[1]), match[2])


def factor(unit: str) -> tuple[float, str]:
    """Factor to base units and the base unit's name: `"MB/s"` gives (1e6, "B/s"), `"ms"` (0.001, "s").

    An unknown unit is its own base: `"images/s"` gives (1.0, "images/s").
    """
    if unit in _TIME:
        return _TIME[unit], "s"
    if unit == "%":
        return 0.01, ""
    head, slash, tail = unit.partition("/")
    for base in ("FLOP", "B", "b", "Hz", "W", "J"):
        if not head.endswith(base):
            continue
        prefix = head[: -len(base)]
        scale = _PREFIX.get(prefix, _BINARY.get(prefix))
        if scale is None:
            continue
        if base == "b":  # eight bits are a byte
            return scale / 8, "B" + slash + tail
        return float(scale), base + slash + tail
    return 1.0, unit


def convert(value: float, unit: str, to: str) -> float:
    """`value` in `unit`, expressed in `to`. Raises ValueError when the two measure different things."""
    (up, base), (down, other) = factor(unit), factor(to)
    if base != other:
        raise ValueError(f"{unit!r} and {to!r} do not measure the same thing")
    return value * up / down


def seconds(text: str | float) -> float:
    """A duration in seconds from `90`, `"90s"`, `"10min"` or `"2h"`. Raises ValueError otherwise."""
    if isinstance(text, int | float):
        return float(text)
    try:
        quantity = parse_quantity(text)
    except ValueError:
        quantity = Quantity(math.nan, text)
    if (quantity.unit or "s") not in _TIME:
        raise ValueError(f"{text!r} is not a duration; write a number with s, min or h, such as 10min")
    return quantity.value * _TIME[quantity.unit or "s"]


def moment(text: str | float) -> float:
    """Seconds since the epoch from those, a date like `2026-03-01` (UTC) or an age like `7d`, `12h`, `2w`.

    Raises ValueError otherwise.
    """
    if not isinstance(text, str):
        return float(text)
    if age := re.fullmatch(r"(\d+)([hdw])", text):
        return time.time() - int(age[1]) * {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}[age[2]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a date, such as 2026-03-01, nor an age, such as 7d") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def rate(text: str | float) -> float:
    """Bytes per second from those, or from `"2GB/s"`. Raises ValueError otherwise."""
    if not isinstance(text, str):
        return float(text)
    try:
        written = parse_quantity(text)
        return convert(written.value, written.unit, "B/s")
    except ValueError as error:
        raise ValueError(f"{error}; write a speed, such as 2GB/s") from None


def size(text: str | float) -> float:
    """A size in bytes from `4000000000`, `"4 GB"` or `"512 MiB"`. Raises ValueError otherwise."""
    if isinstance(text, int | float):
        return float(text)
    quantity = parse_quantity(text)
    scale, base = factor(quantity.unit or "B")
    if base != "B" or quantity.unit.endswith("b"):
        raise ValueError(f"{text!r} is not a size; write a number with MB or GB, such as 4 GB")
    return quantity.value * scale


def fraction(text: str | float) -> float:
    """A fraction from `0.02` or `"2%"`. Raises ValueError otherwise."""
    if isinstance(text, int | float):
        return float(text)
    wrong = f"{text!r} is not a share; write it as 2% or 0.02"
    try:
        quantity = parse_quantity(text)
    except ValueError:
        raise ValueError(wrong) from None
    if quantity.unit not in ("", "%"):
        raise ValueError(wrong)
    return quantity.value * (0.01 if quantity.unit == "%" else 1.0)


def margin_of(written: str | float) -> float:
    """A margin as people write it, `2%` or `0.02`. Raises ValueError outside 0 to 100 %."""
    text = str(written)
    margin = fraction(float(text) if text.replace(".", "", 1).isdigit() else written)
    if 1 <= margin < 100 and "%" not in text:
        raise ValueError(f"{text} is {100 * margin:g} %; write {margin:g}% or {margin / 100:g}")
    if not 0 < margin < 1:
        raise ValueError(f"{text} is not between 0 and 100 %; write it as 2% or 0.02")
    return margin


def significant(value: float, digits: int) -> str:
    """A number with this many significant digits, and all digits before the point; an exponent as in `fixed`.

    >>> significant(1812.4, 2), significant(0.01234, 3), significant(9999.7, 4), significant(1e-320, 4)
    ('1,812', '0.0123', '10,000', '1e-320')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    number, sign, power = fixed(value, digits - 1 - exponent(value, digits)).partition("e")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + sign + power


def fixed(value: float, decimals: int) -> str:
    """A number with this many decimals, or with an exponent if it would have too many digits to count.

    decimals  below 0, the last digits before the point don't count: only a number with an exponent lacks them

    >>> fixed(1812.44, 1), fixed(1812.44, -2), fixed(1.26e-320, 321), fixed(1e300, -297)
    ('1,812.4', '1,812', '1.3e-320', '1.000e300')
    """
    if not value or not math.isfinite(value) or _LEAST_PLAIN <= abs(value) < _MOST_PLAIN:
        return f"{value:,.{max(decimals, 0)}f}"
    digits = max(decimals + exponent(value, 1), 0)
    return f"{value:.{digits}e}".replace("e+", "e")


def exponent(value: float, digits: int) -> int:
    """The power of ten of the first digit, after rounding to this many significant digits; 0 for 0.

    >>> exponent(99.6, 2), exponent(99.4, 2), exponent(0.012, 2)
    (2, 1, -2)
    """
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def human(value: float, unit: str) -> str:
    """A value formatted for people, with four significant digits and a suitable prefix: `7.096 GB/s`."""
    scale, base = factor(unit)
    if base.partition("/")[0] in ("FLOP", "B", "Hz", "W", "J"):
        value *= scale
        for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if abs(value) >= size:
                return f"{significant(value / size, 4)} {prefix}{base}"
        return f"{significant(value, 4)} {base}"
    if base == "s" and unit in _TIME:
        return human_seconds(value * scale)
    return f"{significant(value, 4)} {unit}".strip()


def rough_seconds(value: float) -> str:
    """An estimated duration, to the precision of an estimate: `40 s`, `21 min`, `3.2 h`."""
    if value < 90:
        return f"{max(round(value), 1)} s"
    return f"{value / 60:.0f} min" if value < 90 * 60 else f"{value / 3600:,.1f} h"


def human_seconds(value: float) -> str:
    """A duration formatted for people: `12.3 µs`, `4.20 ms`, `93.1 s`, `20.93 min`, `3.2 h`."""
    size = abs(value)
    if size >= 2 * 3600:
        return f"{significant(value / 3600, 4)} h"
    if size >= 120:
        return f"{significant(value / 60, 4)} min"
    if size >= 1 or size == 0:
        return f"{significant(value, 4)} s"
    if size >= 1e-3:
        return f"{significant(value * 1e3, 4)} ms"
    return f"{significant(value * 1e6, 4)} µs"


def percent(share: float) -> str:
    """A share as a percentage: `2 %`, `0.35 %`; beyond any meaningful value, `over 1000000 %`.

    >>> percent(0.02), percent(0.00354), percent(-1.5)
    ('2.0 %', '0.35 %', '-150 %')
    """
    if share > _MOST_SHARE:
        return f"over {100 * _MOST_SHARE:.0f} %"
    return f"{significant(100 * share, 2)} %" if abs(share) < 1 else f"{100 * share:.0f} %"


def counted(number: int, noun: str) -> str:
    """`1 run`, `5 runs`, `1,200 runs`: a count with its noun.

    >>> counted(1, "run"), counted(5, "run")
    ('1 run', '5 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def all_of(number: int, noun: str) -> str:
    """All of a number of things.

    >>> all_of(1, "run"), all_of(2, "run"), all_of(5, "run")
    ('the only run', 'both runs', 'all 5 runs')
    """
    if number == 1:
        return f"the only {noun}"
    return f"{'both' if number == 2 else f'all {number}'} {noun}s"


def listed(names: Sequence[str]) -> str:
    """The first three names, and how many more there are.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown

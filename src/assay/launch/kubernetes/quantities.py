"""Kubernetes' quantities: `500m`, `8`, `64Gi`.

lightkube's parser doesn't fit: manifests are rendered where it isn't installed, it doesn't know `1E3`, and
a quantity should keep the unit in which the user wrote it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?\d+)?")


def read(value: Any) -> str:
    """The quantity as written, perhaps as a number. Raises ValueError if it is not a quantity."""
    text = str(value)
    if _QUANTITY.fullmatch(text) is None:
        raise ValueError(f"found {value!r}; expected a Kubernetes quantity, like 8, 500m, or 64Gi")
    return text


Quantity = Annotated[str, BeforeValidator(read), WithJsonSchema({"type": ["string", "number"]})]


def times(text: str, factor: int) -> str:
    """A quantity multiplied, in the unit in which it was written.

    >>> times("1.5Gi", 8), times("500m", 2)
    ('12Gi', '1000m')
    """
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    product = Decimal(match[1]) * factor
    return f"{product.normalize():f}{match[2] or ''}"


def number(text: str) -> float:
    """A quantity in its base unit: CPUs, bytes, devices.

    >>> number("500m"), number("2Ki"), number("8")
    (0.5, 2048.0, 8.0)
    """
    return float(_exact(text))


def is_whole(text: str) -> bool:
    """Whether a number of CPUs is an integer.

    >>> is_whole("8"), is_whole("2000m"), is_whole("2.5")
    (True, True, False)
    """
    return _exact(text) % 1 == 0


def _exact(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    value, unit = Decimal(match[1]), match[2] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1 and unit != "Ei":
        return value.scaleb(int(unit[1:]))
    base = Decimal(1024 if unit.endswith("i") else 1000)
    power = -1 if unit == "m" else " kMGTPE".index(unit[:1].replace("K", "k")) if unit else 0
    return value * base**power

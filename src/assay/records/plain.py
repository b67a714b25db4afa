"""The plain values of a label, a fact or a handle, with their limits, and the JSON form of every record."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar

import msgspec

T = TypeVar("T")


def to_plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, ready for `json.dumps`; bytes become base64 text."""
    return msgspec.to_builtins(record, enc_hook=_plain_mapping)


def to_json(record: Any) -> str:
    """A record as indented JSON with a stable key order, ending in a newline."""
    return indented(to_plain(record)) + "\n"


def indented(plain: Any) -> str:
    """Plain data as JSON with a line for each value. Raises ValueError for a number that JSON lacks."""
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    whole = text.encode(errors="replace")  # names of files may hold any byte
    return msgspec.json.format(whole, indent=1).decode()  # json.dumps takes ten times as long to indent


def to_compact_json(record: Any) -> str:
    """A record as JSON on one line, for machines; `from_json` reads it back."""
    return msgspec.json.encode(record, enc_hook=_plain_mapping).decode()


def from_json(kind: type[T], text: str | bytes) -> T:
    """The inverse of `to_json`. Raises ValueError, which says where, if the text is not that record."""
    try:
        record: T = _decoder(kind).decode(text)  # type: ignore[arg-type]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return record


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _plain_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"records have no {type(value)}")


def digest_of(value: Any) -> str:
    """Digest of plain data, independent of key order: 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain_bytes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


Scalar = str | int | float | bool | None

LATEST_TIME: Final = 253_370_764_800.0  # the year 9999 begins: what a date can be made of
LARGEST_AMOUNT: Final = 1e15

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Of attempts, repeats or ranks, as the index can hold it; checked when a record is read from JSON."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""A count that is never 0: of workers, or of the accelerators of one."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""A duration, checked likewise."""

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
"""Between nothing and everything, such as a margin or a confidence."""

Amount = Annotated[float, msgspec.Meta(gt=0, le=LARGEST_AMOUNT)]
"""Of money, checked likewise."""

Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""Seconds since the epoch, checked likewise."""

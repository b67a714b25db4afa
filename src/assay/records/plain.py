"""The JSON form of every record."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter


T = TypeVar("T")
_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _adapters:
        from pydantic import TypeAdapter  # takes a tenth of a second, which not every command needs

        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, ready for `json.dumps`; bytes become base64 text."""
    return _adapter(type(record)).dump_python(record, mode="json")


def to_json(record: Any) -> str:
    """A record as indented JSON with a stable key order, ending in a newline."""
    return json.dumps(to_plain(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_compact_json(record: Any) -> str:
    """A record as JSON on one line, for machines; `from_json` reads it back."""
    return _adapter(type(record)).dump_json(record).decode()


def from_json(kind: type[T], text: str | bytes) -> T:
    """The inverse of `to_json`. Raises ValueError (pydantic's) if the text is not that record."""
    record: T = _adapter(kind).validate_json(text)
    return record


def digest_of(value: Any) -> str:
    """Digest of plain data, independent of key order: 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain_bytes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)

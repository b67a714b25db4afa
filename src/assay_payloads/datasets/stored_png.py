"""A PNG's pixels inflated by isal, in a PNG whose data is merely stored.

A PNG decoder spends three quarters of its time inflating. isal does that five times as fast; the decoder then
only undoes the filters of the rows. Without isal, a file stays as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

isal_zlib: Any
try:
    from isal import isal_zlib
except ImportError:  # the extra `data` brings it; the decoder inflates by itself, too
    isal_zlib = None

CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
HEADER_BYTES = 33  # signature, then IHDR with its length, type and checksum
INTERLACING = 28
STORED_BYTES = 65535  # of a block that isn't compressed
END = b"\0\0\0\0IEND\xaeB`\x82"


@dataclass(frozen=True)
class ImageSize:
    """Width and height in pixels, and PNG's kind of pixels: L, RGB or RGBA."""

    width: int
    height: int
    kind: str


def stored_png(data: bytes, size: ImageSize) -> bytes:
    """The same picture, stored; unchanged if it is interlaced or there is no isal.

    Raises ValueError if a chunk or the compressed data is damaged, or larger than the picture.
    """
    if isal_zlib is None or data[INTERLACING]:
        return data
    length = (1 + size.width * CHANNELS[size.kind]) * size.height
    inflate: Any = isal_zlib.decompressobj()
    try:
        compressed = b"".join(_compressed(data))
        rows = inflate.decompress(compressed, length + 1)
    except isal_zlib.error as error:
        raise ValueError(str(error)) from None
    if len(rows) != length or not inflate.eof:
        raise ValueError(f"{len(rows)} bytes of pixels, expected {length}")
    parts: list[bytes | memoryview] = [b"IDAT", b"\x78\x01"]
    view = memoryview(rows)
    for begin in range(0, length, STORED_BYTES):
        block = view[begin : begin + STORED_BYTES]
        last = begin + STORED_BYTES >= length
        parts += [struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF), block]
    parts.append(compressed[: len(compressed) - len(inflate.unused_data)][-4:])  # the checksum of the rows
    check = 0
    for part in parts:  # one by one: the whole is joined only once
        check = isal_zlib.crc32(part, check)
    head = [data[:HEADER_BYTES], struct.pack(">I", sum(map(len, parts)) - len(parts[0]))]
    return b"".join([*head, *parts, struct.pack(">I", check), END])


def _compressed(data: bytes) -> Iterator[bytes]:
    """The content of the IDAT chunks. Raises ValueError if one is cut or its checksum differs."""
    offset = HEADER_BYTES
    while offset + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[offset : offset + 8])
        content = data[offset + 8 : offset + 8 + length]
        if kind == b"IEND":
            return
        if kind == b"IDAT":
            (check,) = struct.unpack(">I", data[offset + 8 + length : offset + 12 + length].ljust(4, b"\0"))
            if len(content) != length or isal_zlib.crc32(content, isal_zlib.crc32(kind)) != check:
                raise ValueError("a chunk of pixels is cut, or its checksum differs")
            yield content
        offset += 12 + length
    raise ValueError("it is cut before its end")

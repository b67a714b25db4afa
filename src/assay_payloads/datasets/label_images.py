"""How many pixels of a label image have which color: PNGs of 8 bits per channel, RGB, RGBA, or grey.

A label has few colors in long runs along a row. Runs are found first, so that only their ends are summed
up, a hundredth of the pixels.

A PNG decoder spends three quarters of its time inflating. isal does that five times as fast, into a PNG whose
data is merely stored; the decoder then only undoes the filters of the rows. Without isal, a file stays as it
is.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 1 << 27  # 134 million: a file of a few KB may claim to be billions
MOST_BYTES = 1 << 29
KINDS = {0: "L", 2: "RGB", 6: "RGBA"}  # PNG's color types that are counted, as pyspng and Pillow name them
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
OTHERS = {3: "a palette", 4: "grey with alpha"}


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


class LabelImageError(Exception):
    """Why an image can't be counted."""


def header_of(head: bytes) -> tuple[int, int, int, int, int]:
    """Width, height, bits, color type and interlacing of a PNG, from its first 33 bytes.

    Raises LabelImageError for any other file.
    """
    if len(head) < HEADER_BYTES or not head.startswith(SIGNATURE) or head[12:16] != b"IHDR":
        raise LabelImageError("is not a PNG" if head else "is empty")
    width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", head[16:29])
    return width, height, bits, color, interlaced


def size_of(head: bytes) -> ImageSize:
    """The size of a label, from its first 33 bytes. Raises LabelImageError if its pixels can't be counted."""
    width, height, bits, color, _ = header_of(head)
    if not 0 < width * height <= MOST_PIXELS:
        raise LabelImageError(f"claims {width} × {height} pixels; expected 1 to {MOST_PIXELS}")
    if color not in KINDS:
        kind = OTHERS.get(color, f"color type {color}")
        raise LabelImageError(f"has {kind}; expected RGB or grey values")
    if bits != 8:
        raise LabelImageError(f"has {bits} bits per channel; expected 8")
    return ImageSize(width, height, KINDS[color])


def counts(data: bytes) -> tuple[ImageSize, dict[int, int]]:
    """The size, and color → pixels: 0xRRGGBB, or the grey value. Raises LabelImageError if it is damaged."""
    size = size_of(data[:HEADER_BYTES])
    pixels = _decoded(data, size)
    if len(pixels) != size.width * size.height:
        raise LabelImageError(f"has {len(pixels)} pixels instead of {size.width} × {size.height}")
    ends = np.append(_ends(pixels), len(pixels) - 1)
    lengths = np.diff(ends, prepend=-1)
    colors, which = np.unique(_numbers(pixels[ends]), return_inverse=True)
    counted: dict[int, int] = {}
    for color, count in zip(colors, np.bincount(which, weights=lengths)):  # noqa: B905 - 3.8
        rgb = _rgb(int(color), size.kind)
        counted[rgb] = counted.get(rgb, 0) + int(count)  # colors that differ only by alpha are one
    return size, counted


def keep_freed_memory() -> None:
    """Let this process reuse freed memory: given back, its pages cost as much as to decode them again.

    Of glibc's allocator; with any other nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in (
            (M_MMAP_THRESHOLD, 32 << 20),
            (M_TRIM_THRESHOLD, 1 << 28),
            (M_TOP_PAD, 1 << 26),
        ):
            mallopt(option, value)


def _decoded(data: bytes, size: ImageSize) -> np.ndarray:
    """A row per pixel, with a byte per channel."""
    import pyspng

    try:
        pixels = pyspng.load(stored_png(data, size), format=size.kind)
    except (RuntimeError, ValueError) as error:
        raise LabelImageError(f"is damaged: {error}") from None
    return pixels.reshape(-1, CHANNELS[size.kind])


def _ends(pixels: np.ndarray) -> np.ndarray:
    """The pixels whose next one differs, in order; the last pixel isn't among them."""
    channels = pixels.shape[1]
    if channels != 3:
        whole = _numbers(pixels)
        return np.flatnonzero(whole[1:] != whole[:-1])
    # Three bytes are no integer. Words of eight are compared with what is three bytes further on, then the
    # bytes of the words that differ, then those after the last word.
    whole = pixels.ravel()
    chunks = whole[: whole.size // 8 * 8].view("<u8")
    full = max(len(chunks) - 1, 0)
    differs = np.flatnonzero(chunks[:full] != whole[3 : 3 + 8 * full].view("<u8"))
    which = np.flatnonzero((chunks[differs] ^ (chunks[differs] >> 24 | chunks[differs + 1] << 40)).view("u1"))
    rest = np.flatnonzero(whole[8 * full : -3] != whole[8 * full + 3 :])
    changed = np.append(8 * differs[which // 8] + which % 8, 8 * full + rest) // 3
    return changed[np.diff(changed, prepend=-1) != 0]


def _numbers(pixels: np.ndarray) -> np.ndarray:
    """Pixels as one integer each: the grey value, or red, green, blue, alpha from the lowest byte on."""
    if pixels.shape[1] == 3:
        red, green, blue = pixels.T.astype("u4")
        return red | green << 8 | blue << 16
    return np.ascontiguousarray(pixels).view("<u4" if pixels.shape[1] == 4 else "u1").ravel()


def _rgb(pixel: int, kind: str) -> int:
    """0xRRGGBB of a pixel whose bytes are red, green, blue, alpha from the lowest on."""
    if kind == "L":
        return pixel
    return (pixel & 0xFF) << 16 | (pixel & 0xFF00) | (pixel >> 16 & 0xFF)


def read(path: Path) -> bytes:
    """The file's bytes. Raises LabelImageError if it can't be read, or is larger than any label image."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise LabelImageError(f"can't be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise LabelImageError(f"is larger than {MOST_BYTES} bytes")
    return data

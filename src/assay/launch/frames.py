"""Reads the frames that relay.py writes, from a channel that may lose, repeat, and truncate data."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from assay_payloads.keeping.relay import FRAME_BYTES, MARK, UNKEPT, WAITS

_HEAD: Final = re.compile(rb"%s (\S+) (\d+) (\d+) ([0-9a-f]{8})( deflated)?" % MARK.encode())
_LONGEST_HEAD_BYTES = 4096
_LONGEST_LINE_BYTES = 1 << 16
_LONGEST_DEFLATED_BYTES = 2 * FRAME_BYTES  # zlib adds almost nothing to incompressible data, base64 a third


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes of a stream and their offset in it."""

    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line, without its end, that the platform or the relay printed between frames, or the rest of a
    truncated frame.
    """

    line: bytes

    def __str__(self) -> str:
        return self.line.decode(errors="replace")

    @property
    def waits_for(self) -> str:
        """What the keeper waits for before it starts the ranks, as reported by the relay; else ""."""
        return self._after(WAITS)

    @property
    def unkept(self) -> str:
        """Why the relay does not send the job's output files; "" in other lines."""
        return self._after(UNKEPT)

    def _after(self, prefix: str) -> str:
        return str(self).removeprefix(prefix) if self.line.startswith(prefix.encode()) else ""


class FrameReader:
    """Bytes in, frames and lines out; memory is bounded by one frame.

    After a gap, reading resumes at the next header: a frame whose bytes don't match their checksum comes out
    as lines, so lost data shows as a skipped offset, never as wrong data.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame | PlainLine]:
        """Everything that is complete with these bytes."""
        self._rest += data
        position = 0
        try:
            while (decoded := self._next(position)) is not None:
                item, position = decoded
                yield item
        finally:
            del self._rest[:position]

    def _next(self, position: int) -> tuple[Frame | PlainLine, int] | None:
        rest = self._rest
        end = rest.find(b"\n", position, position + _LONGEST_LINE_BYTES)
        if end < 0:
            if len(rest) - position < _LONGEST_LINE_BYTES:
                return None
            end = position + _LONGEST_LINE_BYTES - 1
        head = _HEAD.fullmatch(rest, position, end) if end - position < _LONGEST_HEAD_BYTES else None
        if head is None or int(head[3]) > FRAME_BYTES:
            return PlainLine(bytes(rest[position:end])), end + 1
        if head[5]:
            return self._deflated(head, end + 1)
        begin = end + 1
        stop = begin + int(head[3])
        if stop + 1 > len(rest):
            return None
        data = bytes(rest[begin:stop])
        if rest[stop] != ord("\n") or zlib.crc32(data) != int(head[4], 16):
            return PlainLine(bytes(rest[position:end])), begin
        return Frame(head[1].decode(), int(head[2]), data), stop + 1

    def _deflated(self, head: re.Match[bytes], begin: int) -> tuple[Frame | PlainLine, int] | None:
        stop = self._rest.find(b"\n", begin, begin + _LONGEST_DEFLATED_BYTES)
        if stop < 0 and len(self._rest) - begin < _LONGEST_DEFLATED_BYTES:
            return None
        data = _inflated(self._rest[begin:stop]) if stop >= 0 else b""
        if len(data) != int(head[3]) or zlib.crc32(data) != int(head[4], 16):
            return PlainLine(head[0]), begin
        return Frame(head[1].decode(), int(head[2]), data), stop + 1


def _inflated(text: bytearray) -> bytes:
    """The bytes of a deflated frame; b"" if it is not one, which matches no checksum."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), FRAME_BYTES + 1)
    except (binascii.Error, zlib.error):
        return b""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a stream that the channel lost."""

    stream: str
    begin: int
    end: int

    def __str__(self) -> str:
        return f"bytes {self.begin} to {self.end} of {self.stream}"


class Joiner:
    """Assembles the frames of each stream: each byte once and in order, even if it arrives twice.

    taken  stream → bytes that are already stored; counted up
    gaps   what was lost; a stream ends before its gap, so that what is stored is a correct prefix
    """

    def __init__(self, taken: dict[str, int]) -> None:
        self.taken = taken
        self.gaps: dict[str, Gap] = {}

    def join(self, frame: Frame) -> bytes:
        """The bytes of this frame that are new and continue what is stored."""
        have = self.taken.get(frame.stream, 0)
        if frame.offset > have:
            self.gaps.setdefault(frame.stream, Gap(frame.stream, have, frame.offset))
            return b""
        new = frame.data[have - frame.offset :]
        self.taken[frame.stream] = have + len(new)
        gap = self.gaps.get(frame.stream)
        if gap is not None and have + len(new) >= gap.end:  # it arrived after all, when read again
            del self.gaps[frame.stream]
        return new

"""The bytes of a foreign log as UTF-8 text: decompressed, decoded, and out of Docker's JSON.

A file is recognized by its first bytes, never by its name. What a small file unpacks to is bounded: gzip
packs a thousand to one, bzip2 a million to one.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from assay.errors import InputError, Problem
from assay.inputs import open_plain
from assay.units import human

LARGEST_UNPACKED_BYTES: Final = 1 << 30
DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)  # also: truncated
_PIECE_BYTES: Final = 1 << 18
_LONGEST_RECORD_BYTES: Final = 1 << 20  # Docker splits what a program prints at 16 KiB
_HEAD_BYTES: Final = 512
_OPENERS: Final[tuple[tuple[re.Pattern[bytes], str, Callable[[Path], Any]], ...]] = (
    (re.compile(rb"\x1f\x8b"), "gzip", gzip.open),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", lzma.open),
    # with the mark of its first block, or of its end: text may begin with BZh
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2", bz2.open),
)
_REFUSED: Final = (  # first bytes, what the file is, the command that unpacks it
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unzstd"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "unlz4"),
    (b"PK\x03\x04", "a zip archive", "unzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x"),
)
_ENCODINGS: Final = (  # UTF-32's mark begins like UTF-16's
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
    (codecs.BOM_UTF8, "UTF-8-sig"),
)


def open_log(path: Path) -> BufferedReader:
    """A log's text as bytes in UTF-8, from its beginning.

    Raises OSError if it can't be opened, and InputError for an archive or an unknown compression. Reading
    raises one of DAMAGED where a compressed file is damaged, and InputError where it unpacks to more than
    LARGEST_UNPACKED_BYTES.
    """
    source: IO[bytes] = open_plain(path)
    try:
        head = source.read(_HEAD_BYTES)
        source.seek(0)
        opener = next((opener for mark, _, opener in _OPENERS if mark.match(head)), None)
        if opener is not None:
            source.close()
            source = opener(path)
            pieces = _unpacked(path, source)
        else:
            _refuse_archive(path, head)
            if isinstance(source, BufferedReader) and not _encoding(head) and not _is_wrapped(head):
                return source
            pieces = iter(partial(source.read, _PIECE_BYTES), b"")
        return BufferedReader(_Pieces(_converted(pieces, path), source), _PIECE_BYTES)
    except BaseException:
        source.close()
        raise


def form_of(path: Path) -> tuple[str, ...]:
    """How the text is packed, each as a word for people; empty if it is plain. Raises like `open_log`."""
    with open_plain(path) as file:
        head = file.read(_HEAD_BYTES)
    forms = [name for mark, name, _ in _OPENERS if mark.match(head)]
    if forms:
        with open_log(path) as log:
            head = log.read(_HEAD_BYTES)
    encoding = _encoding(head)
    forms += [encoding] if encoding.startswith(("UTF-16", "UTF-32")) else []
    return (*forms, *(["Docker's JSON"] if _is_wrapped(head) else []))


def _refuse_archive(path: Path, head: bytes) -> None:
    kinds = [(what, command) for magic, what, command in _REFUSED if head.startswith(magic)]
    kinds += [("a tar archive", "tar -xf")] if head[257:262] == b"ustar" else []
    for what, command in kinds:
        raise InputError([Problem(str(path), f"is {what}; unpack it first: {command} {path.name}")])


def _unpacked(path: Path, packed: IO[bytes]) -> Iterator[bytes]:
    size = 0
    read1: Callable[[int], bytes] = packed.read1  # type: ignore[attr-defined]
    while piece := read1(
        _PIECE_BYTES
    ):  # what is available: filling a piece would lose it where the file is cut
        size += len(piece)
        if size > LARGEST_UNPACKED_BYTES:
            most = human(float(LARGEST_UNPACKED_BYTES), "B")
            raise InputError(
                [Problem(str(path), f"unpacks to more than {most}; unpack it first if that is right")]
            )
        yield piece


def _converted(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The pieces in UTF-8 and without Docker's JSON around each line."""
    head = next(pieces, b"")
    _refuse_archive(path, head)
    pieces = chain([head], pieces)
    if encoding := _encoding(head):
        pieces = _decoded(pieces, encoding)
        head = codecs.getincrementaldecoder(encoding)("replace").decode(head).encode()
    return _unwrapped(pieces) if _is_wrapped(head) else pieces


def _encoding(head: bytes) -> str:
    return next((name for mark, name in _ENCODINGS if head.startswith(mark)), "")


def _decoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()


def _is_wrapped(head: bytes) -> bool:
    return head.startswith((b'{"log":"', b'{"log": "'))


def _unwrapped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What each record holds. A line in several records is followed by empty ones: numbers of lines stay."""
    rest, joined = b"", 0
    for piece in pieces:
        *records, rest = (rest + piece).split(b"\n")
        texts = []
        for record in records:
            text = _logged(record)
            if text.endswith(b"\n"):
                texts.append(text + b"\n" * joined)
                joined = 0
            else:
                texts.append(text)
                joined += 1
        yield b"".join(texts)
        if len(rest) > _LONGEST_RECORD_BYTES:
            yield rest
            rest = b""
    yield rest and _logged(rest).removesuffix(b"\n")  # without its end, as the file is


def _logged(record: bytes) -> bytes:
    """The line in a record; any other line unchanged."""
    try:
        return str.encode(json.loads(record)["log"], errors="replace")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return record + b"\n"


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes], source: IO[bytes]) -> None:
        self._pieces, self._source, self._rest = pieces, source, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        part = self._rest[: len(buffer)]
        buffer[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def close(self) -> None:
        self._source.close()
        super().close()

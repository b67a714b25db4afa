"""A log of any size in pages: where a line begins is found without reading what is before it twice.

The ends of lines are counted once per block of 4 MiB, and the counts are kept while the log only grows. So a
page in the middle of 2 GB reads one block. A line has the number that readers give it: only a newline
counts, as in `assay.inputs.Log`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import Any, Final

from assay.inputs import LONGEST_LINE, reading

BLOCK_BYTES: Final = 1 << 22
MOST_LINES: Final = 500  # of a page
MOST_MATCHES: Final = 100  # of one search
SEARCHED_BYTES: Final = 256 << 20  # by one search, which then can be continued
_MARGIN_BYTES = 4096  # more than the longest secret: where a line is cut, so much is left out on both sides
_BEFORE_MATCH = 200  # characters of a long line that are shown before the words
_MOST_KEPT = 64  # logs whose counts are kept


@dataclass(frozen=True)
class LogLine:
    """A line with its number from 1, without its end.

    cut         it is longer, and its end is not here
    cut_before  its beginning is not here either, but the part in which a search found its words
    """

    number: int
    text: str
    cut: bool = False
    cut_before: bool = False

    @property
    def is_part(self) -> bool:
        """Whether the line is longer than its text."""
        return self.cut or self.cut_before


@dataclass(frozen=True)
class LogPage:
    """Consecutive lines of a log.

    total  lines of the whole log now
    bytes  its size now
    """

    lines: tuple[LogLine, ...]
    total: int
    bytes: int

    def document(self) -> dict[str, Any]:
        """Lines of a log; `next` is the line after them, null at the end."""
        from assay.records import to_plain

        last = self.lines[-1].number if self.lines else 0
        following = last + 1 if last < self.total else None
        return {"schema": "assay.log/1", **to_plain(self), "next": following}


@dataclass(frozen=True)
class LogMatches:
    """Lines that contain what was searched for.

    next_line  where the search can be continued; None if the whole log was searched
    """

    lines: tuple[LogLine, ...]
    next_line: int | None

    def document(self) -> dict[str, Any]:
        """Lines that match; `next` continues the search, null at the end."""
        from assay.records import to_plain

        lines = [to_plain(line) for line in self.lines]
        return {"schema": "assay.log-search/1", "lines": lines, "next": self.next_line}


def read_page(path: Path, first: int = 1, most: int = MOST_LINES) -> LogPage:
    """Lines from `first` on; from the last one if there are fewer. Raises InputError if it is unreadable."""
    with reading(path) as file:
        starts = _starts_of(path, file)
        total = starts.lines(file)
        begin = min(max(1, first), max(1, total))
        file.seek(starts.begin(file, begin))
        lines = tuple(_read_lines(file, starts, begin, min(most, total - begin + 1)))
        return LogPage(lines, total, os.fstat(file.fileno()).st_size)


def search(
    path: Path, text: str, first: int = 1, clean: Callable[[str], str] = str, most: int = MOST_MATCHES
) -> LogMatches:
    """At most `most` lines from `first` on that contain the words, whatever their case.

    clean  hides what must not be shown; what it hides is not found either

    A line that is longer than a page shows is cut around the words. One that is longer than what is searched
    at once is searched only that far.

    Raises InputError if the log is unreadable.
    """
    query = _Query(text.encode().lower(), re.compile(re.escape(text), re.IGNORECASE), clean)
    matches: list[LogLine] = []
    with reading(path) as file:
        starts = _starts_of(path, file)
        begin = starts.begin(file, first)
        file.seek(begin)
        for match in _matching(file, query, first):
            if not matches or matches[-1].number != match.number:
                matches.append(match)
            if len(matches) == most:
                return LogMatches(tuple(matches), match.number + 1)
        if file.tell() - begin >= SEARCHED_BYTES and file.read(1):
            following = starts.line_at(file, begin + SEARCHED_BYTES)
            return LogMatches(
                tuple(matches), max(following, first + 1)
            )  # the rest of a longer line is skipped
    return LogMatches(tuple(matches), None)


@dataclass(frozen=True)
class _Query:
    """What is searched for: in the log's bytes, which is fast, then in the text without what is hidden."""

    needle: bytes
    pattern: re.Pattern[str]
    clean: Callable[[str], str]


def _matching(file: BufferedReader, query: _Query, number: int) -> Iterator[LogLine]:
    """Each matching line; stops after SEARCHED_BYTES, a line that ends there is left.

    A line that is longer than a block comes in parts that overlap, so that each place has its surroundings
    in one of them.
    """
    rest, is_inside, read_bytes = b"", False, 0  # is_inside: `rest` begins in the middle of a line
    while read_bytes < SEARCHED_BYTES and (data := file.read(BLOCK_BYTES)):
        read_bytes += len(data)
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end:
            yield from _matches(data[:end], query, number, cut_before=is_inside, cut_after=False)
            number += data.count(b"\n")
            rest, is_inside = data[end:], False
        elif len(data) > BLOCK_BYTES + 4 * _MARGIN_BYTES:
            yield from _matches(data, query, number, cut_before=is_inside, cut_after=True)
            rest, is_inside = data[-4 * _MARGIN_BYTES :], True
        else:
            rest = data
    if not file.peek(1):
        yield from _matches(rest, query, number, cut_before=is_inside, cut_after=False)


def _matches(
    data: bytes, query: _Query, number: int, *, cut_before: bool, cut_after: bool
) -> Iterator[LogLine]:
    """Each matching line of these; where the data is cut, matches near the cut are left to another part."""
    lowered, counted = data.lower(), 0
    search_from = 2 * _MARGIN_BYTES if cut_before else 0
    last = len(data) - 2 * _MARGIN_BYTES if cut_after else len(data)
    while 0 <= (hit := lowered.find(query.needle, search_from)) < last:
        number += data.count(b"\n", counted, hit)
        counted = hit
        begin, stop = data.rfind(b"\n", 0, hit) + 1, data.find(b"\n", hit)
        stop = len(data) if stop < 0 else stop
        around = max(begin, hit - 2 * _MARGIN_BYTES), min(stop, hit + 2 * _MARGIN_BYTES)
        raw = data[slice(*around)].decode(errors="replace").removesuffix("\r")
        text = query.clean(raw)
        line = _excerpt(
            text, query, number,
            cut_before=around[0] > begin or (cut_before and begin == 0),
            cut_after=around[1] < stop or (cut_after and stop == len(data)),
        )  # fmt: skip
        if line is not None:
            yield line
        # what was hidden leaves less of the text away from its cut end
        judged = max(_MARGIN_BYTES // 8, _MARGIN_BYTES - max(0, len(raw) - len(text)))
        search_from = stop if line is not None else min(stop, hit + judged)


def _excerpt(text: str, query: _Query, number: int, *, cut_before: bool, cut_after: bool) -> LogLine | None:
    """What is shown of a line; None if the words are only in what is hidden.

    Nothing near a cut counts or is shown: a secret that is cut there would not be known as one.
    """
    first = _MARGIN_BYTES if cut_before else 0
    last = len(text) - _MARGIN_BYTES if cut_after else len(text)
    match = query.pattern.search(text, first, last)
    if match is None:
        return None
    is_near = match.end() <= LONGEST_LINE and not cut_before
    begin = 0 if is_near else max(first, match.start() - _BEFORE_MATCH)
    shown = text[begin : min(last, begin + LONGEST_LINE)]
    return LogLine(number, shown, cut=begin + len(shown) < len(text), cut_before=begin > 0)


def _read_lines(file: BufferedReader, starts: _LineStarts, first: int, count: int) -> Iterator[LogLine]:
    for number in range(first, first + count):
        raw = file.readline(LONGEST_LINE + 1)
        yield _line(number, raw.removesuffix(b"\n"))
        if not raw.endswith(b"\n"):  # the rest of a long line is not read
            file.seek(starts.begin(file, number + 1))


def _line(number: int, raw: bytes) -> LogLine:
    text = raw[:LONGEST_LINE].decode(errors="replace").removesuffix("\r")
    return LogLine(number, text, cut=len(raw) > LONGEST_LINE)


class _LineStarts:
    """The number of line ends before each block of a log, counted as far as it was needed."""

    def __init__(self, identity: tuple[int, int]) -> None:
        self.identity = identity
        self._before = [0]  # line ends before block n; a block counts once it is whole
        self._counting = Lock()

    @property
    def counted_bytes(self) -> int:
        """How far the log was counted."""
        return (len(self._before) - 1) * BLOCK_BYTES

    def lines(self, file: BufferedReader) -> int:
        """Lines of the log; one without an end counts."""
        self._count(file)
        file.seek(self.counted_bytes)
        tail = file.read(BLOCK_BYTES)
        if not tail and len(self._before) > 1:
            file.seek(-1, os.SEEK_CUR)
            return self._before[-1] + (file.read(1) != b"\n")
        return self._before[-1] + tail.count(b"\n") + (tail[-1:] not in (b"\n", b""))

    def begin(self, file: BufferedReader, line: int) -> int:
        """The offset at which a line begins; the log's size if there is no such line."""
        self._count(file)
        ends = line - 1
        if ends <= 0:
            return 0
        block = bisect_left(self._before, ends) - 1
        file.seek(block * BLOCK_BYTES)
        data = file.read(BLOCK_BYTES)
        return block * BLOCK_BYTES + _after(data, ends - self._before[block])

    def line_at(self, file: BufferedReader, offset: int) -> int:
        """The number of the line that contains an offset."""
        self._count(file)
        block = min(offset // BLOCK_BYTES, len(self._before) - 1)
        file.seek(block * BLOCK_BYTES)
        return self._before[block] + file.read(offset - block * BLOCK_BYTES).count(b"\n") + 1

    def _count(self, file: BufferedReader) -> None:
        with self._counting:
            size = os.fstat(file.fileno()).st_size
            file.seek(self.counted_bytes)
            while len(self._before) * BLOCK_BYTES <= size:
                data = file.read(BLOCK_BYTES)
                if len(data) < BLOCK_BYTES:  # it became shorter meanwhile
                    return
                self._before.append(self._before[-1] + data.count(b"\n"))


def _after(data: bytes, ends: int) -> int:
    """The offset after so many line ends; the length if there are fewer."""
    begin, end = 0, len(data)
    if data.count(b"\n") < ends:
        return end
    while end - begin > 1:
        middle = (begin + end) // 2
        there = data.count(b"\n", begin, middle)
        if there >= ends:
            end = middle
        else:
            begin, ends = middle, ends - there
    return end


_kept: OrderedDict[Path, _LineStarts] = OrderedDict()
_keeping = Lock()


def _starts_of(path: Path, file: BufferedReader) -> _LineStarts:
    """The counts of a log, which are new if the file is another one or has become shorter."""
    about = os.fstat(file.fileno())
    identity = about.st_dev, about.st_ino
    with _keeping:
        known = _kept.pop(path, None)
        if known is None or known.identity != identity or known.counted_bytes > about.st_size:
            known = _LineStarts(identity)
        _kept[path] = known
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return known

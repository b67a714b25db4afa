"""MLPerf log lines of every round, found anywhere in a program's output, as events.

| round   | line                                                                               |
|---------|------------------------------------------------------------------------------------|
| v0.5    | `:::MLPv0.5.0 ssd 1541710832.187 (train.py:371) eval_accuracy: {"epoch": 32, …}`    |
| v0.6    | `:::MLL 1558570838.588 run_start: {"value": null, "metadata": {…}}`                 |
| v0.7 on | `:::MLLOG {"time_ms": …, "event_type": …, "key": …, "value": …, "metadata": {…}}`   |

Logs are large, mostly not of this format, and written by many ranks at once: tokens are searched by block,
not by line; a prefix (`0: `, `[1,0]<stdout>:`) or text behind the JSON does no harm. Memory is flat in the
size of the file. What looks like a token and can't be understood is counted, never passed over silently.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

from pydantic_core import from_json

from assay.errors import InputError, Problem

Kind = Literal["start", "end", "point"]
Form = Literal["v0.5", "v0.6", "v0.7"]

BLOCK_BYTES: Final = 1 << 18  # stays in the second-level cache while it is searched and its lines counted
LONGEST_LINE_BYTES: Final = 1 << 23  # beyond it a line is cut, so that a file without newlines fits too
SKIPPED_SHOWN: Final = 5

_TOKEN = re.compile(rb":::ML(?:LOG|L|Pv)")
_V05 = re.compile(rb"0\.5\.\d+ (\S+) (\d+\.?\d*) \((.*?):(\d+)\) (\w+)(?::[ \t]*(.*))?", re.DOTALL)
_V06 = re.compile(rb" (\d+\.?\d*) (\w+)[ ]?:\s+(.*)", re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS: Final[Mapping[str, Kind]] = {
    "INTERVAL_START": "start",
    "INTERVAL_END": "end",
    "POINT_IN_TIME": "point",
}
_CUT_SHORT = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_DECODER = json.JSONDecoder()


class Event(NamedTuple):
    """One token line.

    line      in the file (after decompression), from 1
    time_ms   time of day in milliseconds since the epoch; None where the line says null
    kind      start or end of an interval, or a point in time; by the key's ending before v0.7
    key       `run_start`, `eval_accuracy`, …
    value     any JSON value; before v0.6 also a bare word as text
    metadata  what stands beside it: `epoch_num`, `status`, `file`, `lineno`; v0.5 adds `benchmark`
    form      which of the three forms the line has
    """

    line: int
    time_ms: float | None
    kind: Kind
    key: str
    value: Any
    metadata: Mapping[str, Any]
    form: Form


class EventReader:
    """The events of one log in the file's order; iterate once, then look at what was wrong.

    path        raw, gzip or xz, told by its first bytes, not by its name

    skipped     token lines that could not be understood: cut, mixed with another rank's, not JSON
    skipped_at  line numbers of the first few of them
    cut         the last line is one of these and has no newline: the writer was stopped in it
    problem     why the file could not be read to its end (a compressed file cut short); "" when it was

    Iterating raises InputError where the file can't be opened or read at all.

    >>> reader = EventReader(Path("result_0.txt"))  # doctest: +SKIP
    >>> [event.key for event in reader if event.kind == "start"]  # doctest: +SKIP
    ['init_start', 'run_start', 'block_start']
    >>> reader.skipped, reader.problem  # doctest: +SKIP
    (0, '')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.skipped_at: list[int] = []
        self.cut = False
        self.problem = ""
        self._line = 1  # of the first byte that was not scanned yet

    def __iter__(self) -> Iterator[Event]:
        rest = b""
        try:
            with open_log(self.path) as log:
                read = _reading_once(log)
                while data := read(BLOCK_BYTES):
                    block = rest + data if rest else data
                    end = _end_of_whole_lines(block)
                    yield from self._scan(block, end)
                    rest = block[end:]
        except _CUT_SHORT as error:
            self.problem = f"compressed file is damaged or cut short ({error}); read up to line {self._line}"
        except OSError as error:
            raise InputError(
                [Problem(str(self.path), f"can't be read: {error.strerror or error}")]
            ) from error
        before = self.skipped
        yield from self._scan(rest, len(rest))
        self.cut = self.skipped > before

    def _scan(self, block: bytes, end: int) -> list[Event]:
        """Events of `block[:end]`, lines counted on."""
        found: list[Event] = []
        counted = understood = 0
        line = self._line
        for match in _TOKEN.finditer(block, 0, end):
            start, after = match.span()
            if start < understood:  # quoted inside the line before
                continue
            line += block.count(b"\n", counted, start)
            counted = start
            stop = block.find(b"\n", after, end)
            if stop < 0:
                stop = end
            try:
                event, understood = _READERS[after - start](block, after, stop, line)
            except (ValueError, TypeError, KeyError, RecursionError):
                self._skip(line)
            else:
                found.append(event)
        self._line = line + block.count(b"\n", counted, end)
        return found

    def _skip(self, line: int) -> None:
        self.skipped += 1
        if len(self.skipped_at) < SKIPPED_SHOWN:
            self.skipped_at.append(line)


def events(path: Path) -> Iterator[Event]:
    """Events of a log that has to be whole; use `EventReader` to hear of skipped lines.

    Raises InputError where the file can't be read, and after the last event of a compressed file cut short.
    """
    reader = EventReader(path)
    yield from reader
    if reader.problem:
        raise InputError([Problem(str(path), reader.problem)])


def open_log(path: Path) -> AbstractContextManager[IO[bytes]]:
    """A log opened for reading bytes, decompressed where its first bytes say gzip or xz. Raises OSError."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if magic == b"\xfd7zXZ\x00":
        return lzma.open(path, "rb")
    return path.open("rb", buffering=0)


def _reading_once(log: IO[bytes]) -> Callable[[int], bytes]:
    """`read` that gives what is there: filling a whole block would lose what came before a stream's cut."""
    read: Callable[[int], bytes] = getattr(log, "read1", log.read)
    return read


def _end_of_whole_lines(block: bytes) -> int:
    """How much of the block can be scanned: up to the last newline, unless a line is longer than allowed."""
    end = block.rfind(b"\n") + 1
    if end == 0 and len(block) > LONGEST_LINE_BYTES:
        return len(block) - len(b":::MLLO")  # a token that is cut here is found when the rest has come
    return end


def _read_v07(block: bytes, after: int, stop: int, line: int) -> tuple[Event, int]:
    try:
        entry = from_json(block[after:stop])
        end = stop
    except ValueError:
        entry, end = _leading_json(block, after, stop)
    key, metadata = entry["key"], entry.get("metadata")
    if metadata is None:
        metadata = {}
    if type(key) is not str or type(metadata) is not dict:
        raise ValueError("no MLLOG entry")
    kind = _KINDS.get(entry.get("event_type")) or _kind_by_ending(key)
    time_ms = _checked_time(entry["time_ms"])
    return Event(line, time_ms, kind, key, entry.get("value"), metadata, "v0.7"), end


def _read_v06(block: bytes, after: int, stop: int, line: int) -> tuple[Event, int]:
    match = _V06.match(block, after, stop)
    if match is None:
        raise ValueError("no MLL line")
    try:
        entry = from_json(match[3])
        end = stop
    except ValueError:
        entry, end = _leading_json(block, match.start(3), stop)
    key = match[2].decode()
    metadata = entry["metadata"]
    if type(metadata) is not dict:
        raise ValueError("no MLL entry")
    time_ms = _checked_time(float(match[1]) * 1000)
    return Event(line, time_ms, _kind_by_ending(key), key, entry["value"], metadata, "v0.6"), end


def _read_v05(block: bytes, after: int, stop: int, line: int) -> tuple[Event, int]:
    match = _V05.match(block, after, stop)
    if match is None:
        raise ValueError("no MLPv0.5 line")
    benchmark, seconds, file, lineno, key_bytes, text = match.groups()
    value: Any = None
    if text is not None and (text := text.strip()):
        try:
            value = from_json(text)
        except ValueError:
            value = _text(text)
    key = key_bytes.decode()
    metadata = {"benchmark": _text(benchmark), "file": _text(file), "lineno": int(lineno)}
    time_ms = _checked_time(float(seconds) * 1000)
    return Event(line, time_ms, _kind_by_ending(key), key, value, metadata, "v0.5"), stop


# by the length of the token: `:::MLLOG`, `:::MLL`, `:::MLPv`
_READERS: Final = {8: _read_v07, 6: _read_v06, 7: _read_v05}


def _leading_json(block: bytes, start: int, stop: int) -> tuple[Any, int]:
    """The JSON value that a piece begins with, whatever stands behind it, and where it ends.

    Read as latin-1, which has a character for every byte, so that places in text are places in the block.
    Raises ValueError where none begins there or it has no end.
    """
    text = block[start:stop].decode("latin-1")
    leading = len(text) - len(text.lstrip())
    value, end = _DECODER.raw_decode(text, leading)
    if "\\u" in text and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a character, which can't be written anywhere")
    return value, start + end


def _kind_by_ending(key: str) -> Kind:
    if key.endswith("_start"):
        return "start"
    return "end" if key.endswith("_stop") else "point"


def _checked_time(time_ms: Any) -> float | None:
    """The time where it is one; written so that NaN, infinities and endless integers are refused."""
    if time_ms is None:
        return None
    if isinstance(time_ms, bool) or not -1e18 < time_ms < 1e18:
        raise ValueError("no time of day")
    return float(time_ms)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")

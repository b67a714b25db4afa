"""MLPerf log lines of every round, anywhere in a program's output, as events.

| round   | line                                                                               |
|---------|------------------------------------------------------------------------------------|
| v0.5    | `:::MLPv0.5.0 ssd 1541710832.187 (train.py:371) eval_accuracy: {"epoch": 32, …}`    |
| v0.6    | `:::MLL 1558570838.588 run_start: {"value": null, "metadata": {…}}`                 |
| v0.7 on | `:::MLLOG {"time_ms": …, "event_type": …, "key": …, "value": …, "metadata": {…}}`   |

Logs are large, mostly not in this format, and written by many ranks at once: tokens are searched for by
block, not by line; a prefix (`0: `, `[1,0]<stdout>:`) or text after the JSON is harmless. Memory use is
independent of the file size. What looks like a token but can't be parsed is counted, never ignored silently.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard, TypeVar

import msgspec

from assay.errors import InputError, Problem
from assay.formats.figures import LARGEST_FIGURE
from assay.formats.unpacked import DAMAGED, open_log
from assay.inputs import unreadable

Kind = Literal["start", "end", "point"]
EventType = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]
Form = Literal["v0.5", "v0.6", "v0.7"]

BLOCK_BYTES: Final = 1 << 19  # measured: smaller costs calls, larger falls out of the cache between passes
LONGEST_LINE_BYTES: Final = 1 << 20  # longer lines are cut, so that a file without newlines fits too
LONGEST_SALVAGE_BYTES: Final = (
    1 << 16
)  # of a line that isn't plain JSON to its end: limits the cost of a hostile file
LATEST_MS: Final = 1e15  # a float counts milliseconds exactly far beyond this
SKIPPED_SHOWN: Final = 5
HEAD_BYTES: Final = 1 << 15  # the output before a training begins: cleared caches, launch commands

TOKEN: Final = b":::ML"  # every form begins with it
_TOKEN = re.compile(rb":::ML(?:LOG|L|Pv)")
_TOKEN_LINE = re.compile(
    rb":::ML(?:LOG(.*)|L(.*)|Pv(.*))"
)  # from the first token of a line to the line's end
_V05 = re.compile(
    rb"0\.5\.\d+ (\S{1,200}) (\d+\.?\d*) \(([^)]{1,1000}):(\d{1,9})\) (\w+)(?::(.*))?", re.DOTALL
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_STRICT_JSON = (msgspec.MsgspecError, UnicodeDecodeError)
_NOT_UNDERSTOOD = (*_NOT_STRICT_JSON, ValueError, RecursionError)
_KINDS: Final[dict[EventType, Kind]] = {
    "INTERVAL_START": "start",
    "INTERVAL_END": "end",
    "POINT_IN_TIME": "point",
}

_Milliseconds = Annotated[float, msgspec.Meta(ge=-LATEST_MS, le=LATEST_MS)]


# gc=False: objects from JSON have no cycles, and hundreds of thousands of events are created quickly.
# The names with a blank can't occur in a log: `line` and `form` are Assay's, whatever a line says.
class Event(msgspec.Struct, frozen=True, gc=False, rename={"line": " line", "form": " form"}):
    """One token line.

    line        in the file (after decompression), from 1
    time_ms     time of day in milliseconds since the epoch; None if the line says null
    event_type  as v0.7 writes it; `kind` is the short form
    key         `run_start`, `eval_accuracy`, …
    value       any JSON value; before v0.6 also a bare word as text
    metadata    the other fields: `epoch_num`, `status`, `file`, `lineno`; v0.5 adds `benchmark`
    form        which of the three forms the line has
    """

    time_ms: _Milliseconds | None
    key: str
    event_type: EventType = "POINT_IN_TIME"
    value: Any = None
    metadata: dict[str, Any] = {}  # msgspec gives each event its own
    line: int = 0
    form: Form = "v0.7"

    @property
    def kind(self) -> Kind:
        """Start or end of an interval, or a point in time; before v0.7, from the suffix of the key."""
        return _KINDS[self.event_type]


_Entry = TypeVar("_Entry", Event, "_Body")


class EventScanner:
    """Events from text that arrives in blocks of whole lines.

    skipped     token lines that could not be parsed: cut, mixed with another rank's, not JSON
    skipped_at  line numbers of the first few of them
    """

    def __init__(self) -> None:
        self.skipped = 0
        self.skipped_at: list[int] = []
        self._line = 1  # of the first byte not scanned yet

    def scan(self, block: bytes, begin: int = 0, end: int = sys.maxsize) -> list[Event]:
        """Events of `block[begin:end]`; continues the line count."""
        events: list[Event] = []
        line, counted = self._line, begin  # counted: where the last token line ends
        for match in _TOKEN_LINE.finditer(block, begin, end):
            start, stop = match.span()
            line += 1 if events and start == counted + 1 else block.count(b"\n", counted, start)
            counted = stop
            form = match.lastindex or 0
            try:
                events.append(_READERS[form](match[form], line))
            except _NOT_UNDERSTOOD:
                events += self._salvage(block[start:stop], line)
        self._line = line + block.count(b"\n", counted, end)
        return events

    def _salvage(self, text: bytes, line: int) -> Iterator[Event]:
        """Events of a line, from its first token on, that isn't one token and strict JSON to its end."""
        understood = 0
        for match in _TOKEN.finditer(text):
            start, after = match.span()
            if start < understood:  # quoted inside the entry before
                continue
            try:
                event, understood = _SALVAGERS[match[0]](text, after, line)
            except _NOT_UNDERSTOOD:
                self._skip(line)
            else:
                yield event

    def _skip(self, line: int) -> None:
        self.skipped += 1
        if len(self.skipped_at) < SKIPPED_SHOWN:
            self.skipped_at.append(line)


class EventReader(EventScanner):
    """The events of one log in file order; iterate once, then check for problems.

    path        raw, gzip, or xz, recognized by its first bytes, not its name

    cut         the last line is one of these and has no newline: the writer was stopped in it
    head        the first HEAD_BYTES of the log, for text outside token lines
    problem     why the file could not be read to its end (a truncated compressed file); "" if it was

    Iterating raises InputError if the file can't be opened or read at all.

    >>> reader = EventReader(Path("result_0.txt"))  # doctest: +SKIP
    >>> [event.key for event in reader if event.kind == "start"]  # doctest: +SKIP
    ['init_start', 'run_start', 'block_start']
    >>> reader.skipped, reader.problem  # doctest: +SKIP
    (0, '')
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.cut = False
        self.problem = ""
        self.head = b""
        self._rest = b""  # a line whose end has not been read yet

    def __iter__(self) -> Iterator[Event]:
        try:
            with open_log(self.path) as log:
                yield from self._whole_lines(log.read1)
        except DAMAGED as error:
            self.problem = f"compressed file is damaged or truncated ({error}); read up to line {self._line}"
        except OSError as error:
            raise unreadable(self.path, error) from error
        before = self.skipped
        yield from self.scan(self._rest)
        self.cut = self.skipped > before

    def _whole_lines(self, read: Callable[[int], bytes]) -> Iterator[Event]:
        """Events of all lines that end; what follows the last newline stays in `_rest`."""
        while block := read(BLOCK_BYTES):
            if len(self.head) < HEAD_BYTES:  # the first read gives what is buffered, 8 KiB
                self.head += block[: HEAD_BYTES - len(self.head)]
            end = block.rfind(b"\n") + 1
            if end:
                begin = block.find(b"\n") + 1 if self._rest else 0
                if begin:
                    yield from self.scan(self._rest + block[:begin])
                yield from self.scan(block, begin, end)
                self._rest = block[end:]
            elif len(self._rest) < LONGEST_LINE_BYTES:
                self._rest += block
            else:  # cut the line; a token that is cut too is found once its other half arrives
                line, kept = self._rest + block, len(b":::MLLO")
                yield from self.scan(line, 0, len(line) - kept)
                self._rest = line[-kept:]


def events(path: Path) -> Iterator[Event]:
    """Events of a log that must be complete; use `EventReader` to learn of skipped lines.

    Raises InputError if the file can't be read, and after the last event of a truncated compressed file.
    """
    reader = EventReader(path)
    yield from reader
    if reader.problem:
        raise InputError([Problem(str(path), reader.problem)])


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value can be computed with: a number up to LARGEST_FIGURE, and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_FIGURE


# The simple case: everything from the token to the end of the line is one entry. Each returns it, or raises
# one of _NOT_UNDERSTOOD.


class _Body(msgspec.Struct, gc=False):
    """What follows the key in v0.6."""

    value: Any = None
    metadata: dict[str, Any] = {}


_decode_event = msgspec.json.Decoder(Event).decode
_decode_body = msgspec.json.Decoder(_Body).decode
_set = msgspec.structs.force_setattr


def _read_v07(text: bytes, line: int) -> Event:
    event = _decode_event(text)
    _set(event, "line", line)
    return event


def _read_v06(text: bytes, line: int) -> Event:
    head, _, body = text.partition(b": ")
    return _keyed(head, _decode_body(body), line)


def _keyed(head: bytes, body: _Body, line: int) -> Event:
    """An event of v0.6: its time and key precede the body."""
    seconds, key = head.split()
    name, event_type = _name_and_type(key)
    return Event(_milliseconds(seconds), name, event_type, body.value, body.metadata, line, "v0.6")


def _read_v05(text: bytes, line: int) -> Event:
    if TOKEN in text:  # a bare value may be anything, but must not swallow the next token
        raise ValueError("two tokens")
    match = _V05.match(text)
    if match is None:
        raise ValueError("not an MLPv0.5 line")
    benchmark, seconds, file, lineno, key, rest = match.groups()
    value: Any = None
    if rest and (rest := rest.strip()):
        try:
            value = msgspec.json.decode(rest)
        except _NOT_STRICT_JSON:
            value = _text(rest)
    metadata = {"benchmark": _text(benchmark), "file": _text(file), "lineno": int(lineno)}
    name, event_type = _name_and_type(key)
    return Event(_milliseconds(seconds), name, event_type, value, metadata, line, "v0.5")


def _milliseconds(seconds: bytes) -> float:
    time_ms = float(seconds) * 1000
    if not -LATEST_MS <= time_ms <= LATEST_MS:
        raise ValueError("no time of day")
    return time_ms


@lru_cache(maxsize=1024)
def _name_and_type(key: bytes) -> tuple[str, EventType]:
    name = key.decode("ascii")
    if not name.isidentifier():
        raise ValueError("no key")
    if name.endswith("_start"):
        return name, "INTERVAL_START"
    return name, "INTERVAL_END" if name.endswith("_stop") else "POINT_IN_TIME"


_READERS: Final[dict[int, Callable[[bytes, int], Event]]] = {1: _read_v07, 2: _read_v06, 3: _read_v05}


# The other case: text after the entry, another token in the line, NaN among the values, bytes that are not
# UTF-8, null for metadata. Each takes the line and the end of its token, and returns the event and its end.
# The distance it searches is bounded; otherwise a hostile line would cost the square of its length.


def _salvage_v07(text: bytes, after: int, line: int) -> tuple[Event, int]:
    event, end = _leading(Event, text, after)
    _set(event, "line", line)
    return event, end


def _salvage_v06(text: bytes, after: int, line: int) -> tuple[Event, int]:
    colon = text.index(b": ", after, after + LONGEST_SALVAGE_BYTES)
    body, end = _leading(_Body, text, colon + 2)
    return _keyed(text[after:colon], body, line), end


def _salvage_v05(text: bytes, after: int, line: int) -> tuple[Event, int]:
    following = text.find(TOKEN, after)
    end = len(text) if following < 0 else following
    return _read_v05(text[after:end], line), end


def _leading(kind: type[_Entry], line: bytes, start: int) -> tuple[_Entry, int]:
    """The entry that begins at `start`, and where it ends."""
    text = line[start : start + LONGEST_SALVAGE_BYTES].decode("latin-1")
    leading = len(text) - len(text.lstrip())
    value, length = _JSON.raw_decode(
        text, leading
    )  # one character per byte: offsets in text are offsets in the line
    end = start + length
    try:
        return msgspec.json.decode(line[start:end], type=kind), end
    except _NOT_STRICT_JSON:
        pass  # not strict JSON: use what Python's decoder, whose encoder wrote such lines, parsed
    if "\\u" in text and _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a character, which can't be encoded")
    if isinstance(value, dict) and value.get("metadata", ()) is None:
        del value["metadata"]
    return msgspec.convert(value, kind), end


_JSON = json.JSONDecoder()
_SALVAGERS: Final = {b":::MLLOG": _salvage_v07, b":::MLL": _salvage_v06, b":::MLPv": _salvage_v05}


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")

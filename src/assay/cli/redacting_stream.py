"""An output stream that removes secrets and foreign control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from assay import redact
from assay.errors import HostError, ReaderGoneError

# Characters that move the cursor, ring the bell, set the title or reverse text on a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
_OWN = r"\x1b\[[0-9;]*[mAK]|\x1b\[H|\x1b\[\?(?:25|1049)[lh]|\r"  # colors, the live line, live screens
_COLORS = r"\x1b\[[0-9;]*m"


def visible(text: str) -> str:
    """Text with a dot in place of each character that a terminal would obey.

    >>> visible("a\\x1b[2Kb")
    'a·[2Kb'
    """
    return _CONTROL.sub("\N{MIDDLE DOT}", text)


class RedactingStream:
    """A text stream that hides secrets in each write; everything else is the underlying stream's.

    Commands print a line or a table in one piece. What a terminal wraps was redacted before layout.
    Raises as `output` does.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without secrets and control characters; returns its original length."""
        with output():
            self._stream.write(visible(redact.text(text)))
        return len(text)

    @property
    def rich_proxied_file(self) -> TextIO:
        """Where a console of rich writes: `cli/console.py` has made visible what isn't its own."""
        return cast(TextIO, _StyledStream(self._stream, _OWN))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        with output():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would bypass this stream if it found a buffer and the encoding is ASCII
            raise AttributeError(name)
        return getattr(self._stream, name)


class _StyledStream(RedactingStream):
    """The same stream for text with escape sequences that Assay wrote, and no others."""

    def __init__(self, stream: TextIO, allowed: str) -> None:
        super().__init__(stream)
        self._parts = re.compile(f"({allowed})")

    def write(self, text: str) -> int:
        """Write the text without secrets, with the allowed sequences; returns its original length."""
        parts = self._parts.split(redact.text(text))
        with output():
            self._stream.write("".join(part if n % 2 else visible(part) for n, part in enumerate(parts)))
        return len(text)


def show_progress(text: str) -> None:
    """Put a text in place of the last one on the current line of standard error; "" removes it."""
    stream = sys.stderr._stream if isinstance(sys.stderr, RedactingStream) else sys.stderr
    _StyledStream(stream, _OWN).write(f"\r\x1b[K{visible(text)}")
    sys.stderr.flush()


def echo_colored(text: str, stream: TextIO) -> None:
    """Print a text in which another process has set colors."""
    own = stream._stream if isinstance(stream, RedactingStream) else stream
    _StyledStream(own, _COLORS).write(text)


def write_bytes(data: bytes) -> None:
    """Write binary data to standard output, unchanged. Raises as `output` does."""
    stream = sys.stdout._stream if isinstance(sys.stdout, RedactingStream) else sys.stdout
    with output():
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


@contextmanager
def output() -> Iterator[None]:
    """A context for writing to standard output or error.

    Raises HostError if it can't be written, because output lost to a full disk is not a success, and
    ReaderGoneError if nobody reads it.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        what = f"output can't be written: {error.strerror}; free some space or choose another place"
        raise HostError(what) from error

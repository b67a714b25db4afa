"""An output stream that removes secrets and foreign control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from assay import redact
from assay.errors import HostError, ReaderGoneError

# Characters that move the cursor, ring the bell, set the title or reverse text on a terminal. Of the escape
# sequences, Assay's own pass: colors, and those of the live line and of `assay top`'s screen.
_CONTROL = re.compile(
    r"(?!\x1b\[[0-9;]*[mAK]|\x1b\[H|\x1b\[\?(?:25|1049)[lh])[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


class RedactingStream:
    """A text stream that hides secrets in each write; everything else is the underlying stream's.

    Commands print a line or a table in one piece. What a terminal wraps was redacted before layout.
    Raises as `output` does.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        """Write the text without secrets; returns its original length."""
        with output():
            self._stream.write(_CONTROL.sub("\N{MIDDLE DOT}", redact.text(words)))
        return len(words)

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

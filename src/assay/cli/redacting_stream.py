"""A stream that people or programs read, through which neither a secret nor a foreign control goes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from assay import redact
from assay.errors import HostError, ReaderGoneError

# Characters that move, ring, retitle or turn text around on a terminal. Of the sequences with an escape
# Assay's own are let through: colours, and those of the live line.
_CONTROL = re.compile(
    r"(?!\x1b\[[0-9;]*[mAK]|\x1b\[\?25[lh])[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


class RedactingStream:
    """A text stream with secrets hidden in each piece that is written; the rest is the stream's own.

    Commands print a line or a table in one piece. What a terminal folds was redacted before it was laid out.
    Raises as `output` does.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        """Write the words without their secrets; gives how many characters there were."""
        with output():
            self._stream.write(_CONTROL.sub("\N{MIDDLE DOT}", redact.text(words)))
        return len(words)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Have everything written."""
        with output():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click writes past this stream where it finds one and the encoding is ASCII
            raise AttributeError(name)
        return getattr(self._stream, name)


def write_bytes(data: bytes) -> None:
    """Write what is no text to standard output, unchanged. Raises as `output` does."""
    stream = sys.stdout._stream if isinstance(sys.stdout, RedactingStream) else sys.stdout
    with output():
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


@contextmanager
def output() -> Iterator[None]:
    """Writing to standard output or error.

    Raises HostError where it can't be written, because what a disk had no room for is no success, and
    ReaderGoneError where nobody reads it.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        what = f"output can't be written: {error.strerror}; make room or name another place"
        raise HostError(what) from error

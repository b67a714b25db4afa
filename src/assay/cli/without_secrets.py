"""A stream that people or programs read, through which no secret goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from assay import redact


class WithoutSecrets:
    """A text stream with secrets hidden in each piece that is written; the rest is the stream's own.

    Commands print a line or a table in one piece. What a terminal folds was redacted before it was laid out.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        """Write the words without their secrets; gives how many characters there were."""
        self._stream.write(redact.text(words))
        return len(words)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""Rich's console, in which the only escape sequences are its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import rich.console
from rich.segment import Segment

from assay.cli.redacting_stream import visible


class Console(rich.console.Console):
    """A console that shows control characters of what it prints: colors are styles, never text."""

    @property
    def file(self) -> IO[str]:
        """The stream that lets rich's own sequences through, also behind a live display's proxy."""
        file: IO[str] = rich.console.Console.file.__get__(self)
        own: IO[str] = getattr(file, "rich_proxied_file", file)
        return own

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, *what: Any, **options: Any) -> Iterable[Segment]:
        """The segments of something that is printed."""
        for segment in super().render(*what, **options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

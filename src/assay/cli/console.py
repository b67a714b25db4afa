"""Rich's console, in which the only escape sequences are its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from assay.cli.redacting_stream import visible


class Console(rich.console.Console):
    """A console that shows control characters of what it prints: colors are styles, never text."""

    def render(self, *what: Any, **options: Any) -> Iterable[Segment]:
        """The segments of something that is printed."""
        for segment in super().render(*what, **options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

"""Reports of foreign programs in an Assay log, each between two lines with the key `report`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.logs.figures import whole
from assay.logs.mllog import Event, EventReader
from assay.records import Scalar

KEY: Final = "report"


@dataclass(frozen=True)
class ProgramReport:
    """What one program printed.

    part    which of several outputs: `client`, `server`, `json`
    labels  what it was measured on
    text    the log with everything but this report blanked out, so that lines keep their numbers
    """

    part: str
    labels: dict[str, Scalar]
    text: str


def reports(path: Path) -> Iterator[ProgramReport]:
    """The reports that are complete, in log order. Raises InputError if the log can't be read."""
    spans = list(_spans(path))
    lines = whole(path).split("\n") if spans else []
    for begun, ended in spans:
        between = lines[begun.line : ended.line - 1]
        stated = begun.metadata.get("labels")
        labels = stated.items() if isinstance(stated, dict) else ()
        yield ProgramReport(
            str(begun.value),
            {name: value for name, value in labels if isinstance(value, Scalar)},
            "\n" * begun.line + "\n".join(between),
        )


def _spans(path: Path) -> Iterator[tuple[Event, Event]]:
    begun: Event | None = None
    for event in EventReader(path):
        if event.key == KEY and event.kind == "start":
            begun = event
        elif event.key == KEY and event.kind == "end" and begun is not None:
            yield begun, event
            begun = None

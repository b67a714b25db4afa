"""What an exploration has done, on disk: a line for every decision, each written whole before the next step.

Measurements are not in it: they are in run directories. A line that a kill cut off is dropped, and what it
would have said is done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.durable import append, sync
from assay.errors import InputError, Problem
from assay.inputs import read_whole

_LARGEST_BYTES = 64 << 20


@dataclass
class Journal:
    """The lines of an exploration's journal.

    lines  in the order written: each has `what`, and the values that it is about
    """

    path: Path
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal, read; a new one if there is none. Raises InputError if it is damaged."""
        if not path.exists():
            return cls(path)
        whole = read_whole(path, _LARGEST_BYTES)
        kept, _, cut = whole.rpartition(b"\n")
        if cut:
            os.truncate(path, len(whole) - len(cut))
        lines = []
        for number, line in enumerate(kept.split(b"\n") if kept else (), 1):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                what = f"not a line of a journal ({error}); restore the file, or remove its folder"
                raise InputError([Problem(f"{path}:{number}", what)]) from error
        return cls(path, lines)

    def add(self, what: str, **values: Any) -> None:
        """Write one line, and wait until the disk has it. Raises HostError if there is no space."""
        line = {"what": what, **values}
        append(self.path, json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        sync(self.path, self.path.parent)
        self.lines.append(line)

    def entries(self, what: str) -> Iterator[Mapping[str, Any]]:
        """The lines of one kind."""
        return (line for line in self.lines if line["what"] == what)

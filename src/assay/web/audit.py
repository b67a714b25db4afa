"""Who did what, when, from where, with which result: a file that is only appended to."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from assay import redact
from assay.durable import append, make_directory, sync

NAME = "audit.jsonl"
SHOWN_BYTES = 64 << 10


class Audit:
    """The record of one runs directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def note(self, who: str, client: str, what: str, result: str, **about: Any) -> None:
        """Append a line, and wait until the disk has it. Raises HostError if it can't be written.

        What changes something is noted before as `requested`, so that nothing happens unrecorded.
        """
        entry = {"at": round(time.time(), 3), "who": who, "from": client, "what": what, "result": result}
        line = json.dumps(redact.redacted({**entry, **about}), ensure_ascii=True, allow_nan=False)
        make_directory(self.path.parent)
        append(self.path, f"{line}\n".encode())
        sync(self.path)

    def newest(self, most: int = 200) -> list[dict[str, Any]]:
        """The last lines, newest first; a line that a full disk cut short is left out."""
        if not self.path.is_file():
            return []
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - SHOWN_BYTES))
            lines = file.read().splitlines()[1 if size > SHOWN_BYTES else 0 :]
        entries = []
        for line in lines[-most:]:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries[::-1]

"""Read a data set's files from near, where each is kept when it is first read from its source.

Several processes may read the same file at the same time: one copies it, the others wait.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from assay_payloads.datasets.places import DataPlace, place
from assay_payloads.datasets.staged_files import blocks_of, part_of


@dataclass(frozen=True)
class ReadThrough:
    """A directory near, and the place of what it doesn't have yet (places.py); None: it has everything."""

    near: Path
    source: str | None = None

    def __call__(self, path: Path) -> Path:
        """The path of a file in the directory near, once the file is there. Raises OSError, PlaceError.

        A file keeps its time of change, by which a later staging knows whether it is still the same.
        """
        if self.source is not None and not path.exists():
            self._keep(path, path.relative_to(self.near).as_posix(), place(self.source))
        return path

    def _keep(self, path: Path, name: str, source: DataPlace) -> None:
        state, part = source.status(name), part_of(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:  # not truncated before it is locked
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():  # another process kept it meanwhile, under this name or the new one
                if not _is_at(file.fileno(), path):
                    part.unlink(missing_ok=True)
                return
            file.truncate(0)
            for block in blocks_of(source, name, state):
                file.write(block)
            file.flush()
            os.utime(file.fileno(), ns=(state.changed_ns, state.changed_ns))
            part.rename(path)


def _is_at(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())

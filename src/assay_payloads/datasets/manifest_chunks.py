"""A manifest of any size in chunks of frames: only the chunk that is read is in memory."""

from __future__ import annotations

import hashlib
from array import array
from operator import eq
from pathlib import Path

from assay_payloads.datasets.manifest import (
    LONGEST_LINE,
    ChosenFrame,
    Manifest,
    about,
    check_whole,
    frames,
    parsed,
)


class ManifestChunks:
    """A manifest's frames, so many to a chunk, in the order of the file.

    about   the manifest without its frames
    count   frames of all chunks
    size    frames of a chunk; the last one has the rest
    """

    def __init__(self, path: Path, size: int) -> None:
        """Read it once, and note where each chunk begins.

        Raises ManifestError if it is damaged, names a file outside the data set, or has a frame twice;
        OSError.
        """
        self.path, self.size, self.count = path, size, 0
        self._starts: list[int] = []
        sha256, hashes = hashlib.sha256(), array("q")  # eight bytes a label, of a million labels
        with path.open("rb") as file:
            stated = about(file.readline(LONGEST_LINE))
            place = file.tell()
            while line := file.readline(LONGEST_LINE):
                (frame,) = frames([line], self.count + 2)
                if self.count % size == 0:
                    self._starts.append(place)
                sha256.update(frame.line().encode() + b"\n")
                hashes.append(hash(frame.label))
                self.count += 1
                place += len(line)
        check_whole(stated, self.count, sha256.hexdigest())
        in_order = sorted(hashes)
        if any(map(eq, in_order, in_order[1:])):
            parsed(path)  # raises, with both lines, unless it was chance
        self.about = Manifest(stated["root"], stated["layout"], stated["query"], stated["digest"], ())

    def __len__(self) -> int:
        return len(self._starts)

    def frames(self, chunk: int) -> list[ChosenFrame]:
        """The frames of a chunk, from 0."""
        first = chunk * self.size
        with self.path.open("rb") as file:
            file.seek(self._starts[chunk])
            lines = [file.readline(LONGEST_LINE) for _ in range(min(self.size, self.count - first))]
        return list(frames(lines, first + 2))

"""The files of chosen frames, entries of shards among them, and which layouts have a class per pixel."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from assay_payloads.datasets.manifest import ChosenFrame, file_of
from assay_payloads.datasets.read_through import ReadThrough

WITH_PIXELS = ("a2d2", "cityscapes", "webdataset")  # whose labels are images with a class per pixel
# Of Cityscapes' ids, by its scripts (helpers/labels.py); 0 to 6 and 34 are not evaluated.
CITYSCAPES = (
    *("unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic", "ground"),
    *("road", "sidewalk", "parking", "rail track", "building", "wall", "fence", "guard rail", "bridge"),
    *("tunnel", "pole", "polegroup", "traffic light", "traffic sign", "vegetation", "terrain", "sky"),
    *("person", "rider", "car", "truck", "bus", "caravan", "trailer", "train", "motorcycle", "bicycle"),
)


def without_pixels(layout: str, frames: Sequence[ChosenFrame]) -> str:
    """Why frames can't be segmented, because no label image has a class per pixel; "" if they can."""
    if layout not in WITH_PIXELS:
        return f"frames of layout {layout}, whose labels are no images with a class per pixel"
    if whole := [frame.label for frame in frames if not frame.label.lower().endswith(".png")]:
        return f"{whole[0]}, a label of the whole image instead of a class per pixel"
    return ""


@dataclass
class FrameFiles:
    """Reads the files of frames of a layout by their paths: `shard.tar#member` is a member of a shard.

    kept  reads files that their directory doesn't have yet
    """

    layout: str = "a2d2"
    kept: ReadThrough | None = None
    _members: dict[Path, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def opened(self, path: Path) -> IO[bytes]:
        """A file, or the bytes of a member. Raises OSError, PlaceError, TarError."""
        file, entry = self._file(path)
        if not entry:
            return file.open("rb")
        begin, size = self._member(file, entry)
        with file.open("rb") as shard:
            shard.seek(begin)
            return io.BytesIO(shard.read(size))

    def size(self, path: Path) -> int:
        """Bytes of a file or member. Raises as `opened` does."""
        file, entry = self._file(path)
        return self._member(file, entry)[1] if entry else file.stat().st_size

    def _file(self, path: Path) -> tuple[Path, str]:
        """The file once it is there, and the member's name; "" for the file itself."""
        whole = str(path)
        name = file_of(self.layout, whole)
        file = Path(name)
        return (file if self.kept is None else self.kept(file)), whole[len(name) + 1 :]

    def _member(self, shard: Path, entry: str) -> tuple[int, int]:
        """Where a member's bytes begin, and their number. A shard's headers are read once by each process."""
        if shard not in self._members:
            with tarfile.open(shard, "r:") as opened:
                self._members[shard] = {
                    one.name: (one.offset_data, one.size) for one in opened if one.isreg()
                }
        try:
            return self._members[shard][entry]
        except KeyError:
            raise FileNotFoundError(f"{shard} has no member {entry}") from None

"""The files of chosen frames, entries of shards among them, and which layouts have a class per pixel."""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from assay_payloads.datasets.manifest import ChosenFrame, file_of
from assay_payloads.datasets.places import DataPlace, place
from assay_payloads.datasets.staged_files import blocks_of, part_of
from assay_payloads.datasets.tar_end import wrong_end

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


@dataclass(frozen=True)
class _Shard:
    """Where the members of a shard begin, their sizes, and why it doesn't end after them; "" if it does."""

    members: Mapping[str, tuple[int, int]]
    wrong_end: str


@dataclass
class FrameFiles:
    """Reads the files of frames of a layout by their paths: `shard.tar#member` is a member of a shard.

    kept   reads files that their directory doesn't have yet
    store  has them, by their paths relative to it; None: they are in directories
    """

    layout: str = "a2d2"
    kept: ReadThrough | None = None
    store: DataPlace | None = None
    _shards: dict[Path, _Shard] = field(default_factory=dict)

    def opened(self, path: Path) -> IO[bytes]:
        """A file, or the bytes of a member. Raises OSError, PlaceError, TarError."""
        file, entry = self._file(path)
        if not entry:
            return file.open("rb") if self.store is None else io.BytesIO(self.store.read(file.as_posix()))
        begin, size = self._member(file, entry)
        if self.store is None:
            with file.open("rb") as shard:
                shard.seek(begin)
                data = shard.read(size)
        else:
            data = self.store.read(file.as_posix(), begin, size)
        if len(data) < size:
            raise tarfile.ReadError(f"{file} is cut within member {entry}: {len(data):,} of {size:,} bytes")
        return io.BytesIO(data)

    def size(self, path: Path) -> int:
        """Bytes of a file or member. Raises as `opened` does."""
        file, entry = self._file(path)
        if entry:
            return self._member(file, entry)[1]
        return file.stat().st_size if self.store is None else self.store.status(file.as_posix()).size

    def _file(self, path: Path) -> tuple[Path, str]:
        """The file once it is there, and the member's name; "" for the file itself."""
        whole = str(path)
        name = file_of(self.layout, whole)
        file = Path(name)
        return (file if self.kept is None else self.kept(file)), whole[len(name) + 1 :]

    def _member(self, shard: Path, entry: str) -> tuple[int, int]:
        """Where a member's bytes begin, and their number. A shard's headers are read once by each process."""
        if shard not in self._shards:
            with shard.open("rb") if self.store is None else self.store.opened(shard.as_posix()) as file:
                self._shards[shard] = _shard(file)
        known = self._shards[shard]
        try:
            return known.members[entry]
        except KeyError:
            why = f"; the shard {known.wrong_end}" if known.wrong_end else ""
            raise FileNotFoundError(f"{shard} has no member {entry}{why}") from None


def _shard(file: IO[bytes]) -> _Shard:
    members = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as opened:
            for member in opened:
                if member.isreg():
                    members[member.name] = member.offset_data, member.size
            return _Shard(members, wrong_end(file, opened.offset))
    except tarfile.TarError as error:  # what is whole before it is read all the same
        return _Shard(members, f"is not a whole tar file: {error}")


@dataclass(frozen=True)
class ReadThrough:
    """A directory near, and the place of what it doesn't have yet (places.py); None: it has everything.

    Several processes may read the same file at the same time: one copies it, the others wait.
    """

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

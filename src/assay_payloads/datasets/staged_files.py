"""What every staging needs: the files of a manifest at their source, and copies that are compared.

A file is whole as soon as it has its name: it is copied under another one, read back, and renamed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay_payloads.datasets.manifest import Manifest, file_of
from assay_payloads.datasets.places import (
    AbsentError,
    DataPlace,
    Directory,
    PlaceError,
    StoredFile,
    is_remote,
    place,
)

# What a layout has beside its frames, and what it may have.
REQUIRED = {"a2d2": ("class_list.json",)}
OPTIONAL = {"webdataset": ("class_list.json", "classes.txt")}
BLOCK_BYTES = 1 << 20
SMALL_BYTES = 8 << 20
THREADS = 8  # most of their time they wait for storage


RESUME = "free some, or name another place, and run the same command again: what was copied whole stays"


class StagingError(Exception):
    """What kept a file from being copied."""


class MissingError(StagingError):
    """The data set lacks files that the manifest names, or is the target itself."""


@dataclass
class Staging:
    """How far it is: files and bytes of the whole, copied now, and found to be there already.

    directory  where the frames are
    evicted    sets that a cache dropped for them
    resized    files of another size than the manifest states
    """

    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    present_files: int = 0
    seconds: float = 0.0
    directory: str = ""
    evicted: tuple[str, ...] = ()
    resized: int = 0


@dataclass(frozen=True)
class Sources:
    """The data set's place, and what each file is there that is staged.

    beside   those of them that belong to no frame, such as the list of classes
    resized  how many have another size than the manifest states
    """

    place: DataPlace
    states: Mapping[str, StoredFile]
    beside: tuple[str, ...] = ()
    resized: int = 0


def found_at_source(manifest: Manifest, target: str, source: str | None) -> Sources:
    """Every file to stage: of frames that are entries of a shard or of annotations, the whole shard or file.

    target  where it is staged; not the data set's own place

    Raises MissingError that counts those that are missing or outside the data set; StagingError.
    """
    address = manifest.root if source is None else source
    if not is_remote(address):
        address = str(Path(address).resolve())
        target = target if is_remote(target) else str(Path(target).resolve())
    if address == target:
        raise MissingError(f"{target} is the data set's own place; name another")
    beside, may_lack = (files_by_layout.get(manifest.layout, ()) for files_by_layout in (REQUIRED, OPTIONAL))
    names = [*beside, *may_lack]
    names += [
        file_of(manifest.layout, name) for frame in manifest.frames for name in (frame.label, frame.image)
    ]
    names = list(dict.fromkeys(names))
    try:
        root = place(address)
        if isinstance(root, Directory):
            stay_inside(root.root, names, links=True)
        with ThreadPoolExecutor(root.at_once) as pool:
            states = list(pool.map(partial(_state, root), names))
    except PlaceError as error:
        raise StagingError(str(error)) from None
    states_by_name = {name: state for name, state in zip(names, states) if state is not None}  # noqa: B905 - 3.9
    missing = [name for name in names if name not in states_by_name and name not in may_lack]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        what = "is it the data set that the manifest is of?"
        raise MissingError(f"{root.address} has no {missing[0]}{more}; {what}")
    stated = {frame.label: frame.label_bytes for frame in manifest.frames}
    stated |= {frame.image: frame.image_bytes for frame in manifest.frames}
    resized = sum(
        name in states_by_name and states_by_name[name].size != size for name, size in stated.items()
    )
    return Sources(
        root, states_by_name, tuple(name for name in (*beside, *may_lack) if name in states_by_name), resized
    )


def _state(root: DataPlace, name: str) -> StoredFile | None:
    """What a file is; None if it is absent or no plain file."""
    try:
        if isinstance(root, Directory) and not (root.root / name).is_file():
            return None
        return root.status(name)
    except AbsentError:
        return None


def stay_inside(root: Path, names: Iterable[str], *, links: bool = False) -> None:
    """Raise MissingError if a name leads out of a directory over a link.

    links  also if the file itself is a link; otherwise only its folders are looked at
    """
    whole, known = root.resolve(), set[Path]()
    for name in names:
        path = root / name
        if links and path.is_symlink() and not path.resolve().is_relative_to(whole):
            raise MissingError(f"{path} is a link out of {root}; expected a file in it")
        if path.parent not in known:
            known.add(path.parent)
            if not path.parent.resolve().is_relative_to(whole):
                raise MissingError(f"{path.parent} leads out of {root} over a link; expected a folder in it")


def copied(source: DataPlace, name: str, target: Path, state: StoredFile) -> str:
    """Copy, read back and compare; the SHA-256.

    The copy gets its time of change from `state`. Raises StagingError if it isn't what `state` says,
    PlaceError, OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = part_of(target)
    try:
        with unfinished.open("wb") as write:
            written = hashlib.sha256()
            for block in blocks_of(source, name, state):
                written.update(block)
                write.write(block)
            write.flush()
            os.fsync(write.fileno())
            os.posix_fadvise(write.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # read back from the disk
        kept, count = hashlib.sha256(), 0
        with unfinished.open("rb") as read:
            while block := read.read(BLOCK_BYTES):
                kept.update(block)
                count += len(block)
        if kept.digest() != written.digest():
            raise StagingError(f"{target}: what was read back differs from what was written: check this disk")
        if count != state.size or source.status(name) != state:
            what = "changed while it was copied; run the same command again"
            raise StagingError(f"{source.address}/{name} {what}")
        os.utime(unfinished, ns=(state.changed_ns, state.changed_ns))
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return written.hexdigest()


def blocks_of(source: DataPlace, name: str, state: StoredFile) -> Iterator[bytes]:
    """A file's content; from a store, a small one by a single request. Raises PlaceError, OSError."""
    if is_remote(source.address) and state.size <= SMALL_BYTES:
        yield source.read(name)
        return
    with source.opened(name) as read:
        while block := read.read(BLOCK_BYTES):
            yield block


def check_room(target: Path, needed: int) -> None:
    """Raise StagingError unless the disk of a directory has room for these bytes."""
    free = shutil.disk_usage(target).free
    if needed > free:
        raise StagingError(f"{target}: No space left for {needed:,} bytes: {free:,} are free; {RESUME}")


def failed(target: Path, error: OSError) -> StagingError:
    """What to raise if a directory can't be written."""
    full = f"; {RESUME}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return StagingError(f"{error.filename or target}: can't be written: {error.strerror or error}{full}")


def part_of(path: Path) -> Path:
    """The name of a file until it is whole: always the same, so that kills leave no more than one."""
    return path.with_name(f".{path.name}.part")


def write_whole(path: Path, content: str) -> None:
    """Write a text file such that nobody reads a part of it."""
    unfinished = part_of(path)
    unfinished.write_text(content, encoding="utf-8")
    unfinished.replace(path)

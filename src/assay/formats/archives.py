"""Archives of logs, unpacked into a folder: plain files below it, up to a limit."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final

from assay.errors import InputError, Problem
from assay.formats.unpacked import LARGEST_UNPACKED_BYTES, open_log
from assay.inputs import open_plain
from assay.units import human

MOST_FILES: Final = 100_000
_BLOCK: Final = 1 << 20
_TAR_MARK: Final = slice(257, 262)
_HEAD_BYTES: Final = 512
_ZIP_MARK: Final = b"PK\x03\x04"
_DAMAGED: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError),
)


def is_archive(path: Path) -> bool:
    """Whether a file is a tar, compressed or not, or a zip, by its content; False for what can't be read."""
    try:
        head = _head(path)
        if head.startswith(_ZIP_MARK) or head[_TAR_MARK] == b"ustar":
            return True
        if not head.startswith((b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")):
            return False
        with open_log(path) as log:  # raises InputError if it is one
            log.read(_HEAD_BYTES)
    except InputError as error:
        return "is a tar archive" in str(error)
    except (OSError, *_DAMAGED):
        return False
    return False


def _head(path: Path) -> bytes:
    with open_plain(path) as file:
        return file.read(_HEAD_BYTES)


def unpack(path: Path, folder: Path) -> tuple[str, ...]:
    """Write an archive's plain files below a folder; returns the names of what was left out, such as links.

    Raises InputError if it is damaged, or unpacks to more than LARGEST_UNPACKED_BYTES or MOST_FILES.
    """
    left_out: list[str] = []
    size = count = 0
    try:
        for name, member in _members(path):
            target = _below(folder, name)
            if target is None or member is None:
                left_out.append(name)
                continue
            count += 1
            target.parent.mkdir(parents=True, exist_ok=True)
            with member() as source, target.open("wb") as kept:
                while block := source.read(_BLOCK):
                    size += len(block)
                    if size > LARGEST_UNPACKED_BYTES or count > MOST_FILES:
                        most = human(float(LARGEST_UNPACKED_BYTES), "B")
                        what = f"unpacks to more than {most} or {MOST_FILES} files; unpack it first"
                        raise InputError([Problem(str(path), what)])
                    kept.write(block)
    except (OSError, *_DAMAGED) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
            raise
        raise InputError([Problem(str(path), f"is damaged or truncated ({error})")]) from error
    return tuple(left_out)


@contextmanager
def _opened(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[IO[bytes]]:
    file = tar.extractfile(member)
    if file is None:
        raise tarfile.ReadError(f"{member.name} has no content")
    with file:
        yield file


def _members(path: Path) -> Iterator[tuple[str, Callable[[], AbstractContextManager[IO[bytes]]] | None]]:
    """Each member except folders: how to open it; None for what is no plain file."""
    if _head(path).startswith(_ZIP_MARK):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    plain = info.external_attr >> 28 in (0, 8) and not info.flag_bits & 1
                    yield info.filename, partial(archive.open, info) if plain else None
        return
    with tarfile.open(path, "r|*") as tar:
        for member in tar:
            if not member.isdir():
                yield member.name, partial(_opened, tar, member) if member.isfile() else None


def _below(folder: Path, name: str) -> Path | None:
    """Where a member belongs; None if that isn't below the folder."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part != "."]
    if not parts or ".." in parts or parts[0].startswith("/") or any(len(part) > 200 for part in parts):
        return None
    return folder.joinpath(*parts)

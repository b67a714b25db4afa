"""What identifies an imported file: its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from assay import durable
from assay.errors import InputError
from assay.records import digest_of


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes, which are read once while the file stays as it is.

    Raises InputError if it can't be read.
    """
    try:
        about = path.stat()
        return _sha256(path, about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error


@lru_cache(maxsize=10_000)  # an import asks for a log's digest up to three times
def _sha256(path: Path, _inode: int, _size: int, _mtime_ns: int) -> str:
    return durable.sha256(path)


def digest_of_logs(logs: Iterable[Path]) -> str:
    """The same for logs with the same bytes, whatever their names. Raises InputError if one can't be read."""
    return digest_of(sorted(map(sha256, logs)))


def without_copies(paths: Sequence[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The files that differ in their bytes, the first of each, and a note on every other one.

    Raises InputError if one can't be read.
    """
    first: dict[str, Path] = {}
    notes = []
    for path in paths:
        kept = first.setdefault(sha256(path), path)
        if kept is not path:
            why = "named twice" if kept == path else f"a copy of {kept}, with the same bytes"
            notes.append(f"{path}: {why}: it counts once")
    return list(first.values()), tuple(notes)

"""Files made elsewhere, opened and read in one place.

A path with the name of a log may be a FIFO, on which reading waits forever, or a device; and a
line may be as long as a disk. Only plain files are opened, and only as much of one as requested is held.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError, Problem, UnreadableError, machine_advice
from assay.units import human

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LONGEST_LINE: Final = 2000  # bytes that are read of a line; no value is this far along
LARGEST_DOCUMENT_BYTES: Final = 256 << 20  # of a file held completely; a plan of 100,000 trials is 100 MB
BLOCK_BYTES: Final = 1 << 22
_OF_THE_FILE: Final = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL),
        *(errno.EACCES, errno.EPERM, errno.ENXIO),
    }
)
_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_plain(path: Path) -> BufferedReader:
    """A plain file, opened for reading. Raises OSError, also for special files, without opening them."""
    mode = path.stat().st_mode
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), None)
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}, not a plain file", str(path))
    return BufferedReader(_NamedFile(path, opener=_open_at_once))


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO created just now


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to an OSError that has none: reads, writes and closing state only the reason."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


class _NamedFile(FileIO):
    """A file whose errors name it, also those of a read."""

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        with naming(self._path):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with naming(self._path):
            return super().readall()

    def close(self) -> None:
        with naming(self._path):
            super().close()

    @property
    def _path(self) -> Path:
        return Path(os.fsdecode(self.name))


def from_home(path: str | Path) -> Path:
    """The path with the home directory in place of `~`; unchanged for a user who has none.

    A container may run as a user id that has neither HOME nor a line in /etc/passwd.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises where there is no home


@contextmanager
def reading(path: Path) -> Iterator[BufferedReader]:
    """A plain file, for reading. Raises what `unreadable` returns if it can't be read, now or later."""
    try:
        with open_plain(path) as file:
            yield file
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputError | UnreadableError:
    """Why a file can't be read: an InputError if another file or right helps, else an UnreadableError."""
    what = f"can't be read: {error.strerror or error}"
    if error.errno in (None, *_OF_THE_FILE):
        return InputError([Problem(str(path), what)])
    return UnreadableError([Problem(str(path), f"{what}; {machine_advice(error)}")])


def read_whole(path: Path, most_bytes: int = LARGEST_DOCUMENT_BYTES) -> bytes:
    """A file's content. Raises InputError if it can't be read, or is larger than `most_bytes`."""
    data = bytearray()
    with reading(path) as file:
        while len(data) <= most_bytes and (block := file.read(BLOCK_BYTES)):
            data += block
    if len(data) > most_bytes:
        what = f"is larger than {human(float(most_bytes), 'B')}, the limit for such a file"
        raise InputError([Problem(str(path), what)])
    return bytes(data)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InputError if it can't be read, or is not JSON."""
    return json_value(path, read_whole(path))


def json_value(path: Path, text: bytes) -> Any:
    """The content of a JSON file's text. Raises InputError, with its line, if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        where = str(path) if line is None else f"{path}:{line}"
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError([Problem(where, f"not JSON ({why})")]) from None


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
    import hashlib  # loads OpenSSL, which few commands need

    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Log:
    """A log of any size, in blocks or line by line, in constant memory. Raises InputError if unreadable.

    longest  bytes of a line that are read
    cut      number of longer lines, once it has been read
    ended    whether its last line has an end, once it has been read

    A carriage return also ends a line, so that progress bars are read, but isn't counted as one.
    """

    def __init__(self, path: Path, longest: int = LONGEST_LINE) -> None:
        self.path, self.longest, self.cut, self.ended = path, longest, 0, True

    def blocks(self) -> Iterator[bytes]:
        """Complete lines, many at a time, long ones cut; the last one may lack its end."""
        rest = b""
        for piece in self._pieces():
            data = rest + piece
            # a carriage return at the very end may be half of a line's end
            end = (data.rfind(b"\n") if b"\n" in data else data.rfind(b"\r", 0, -1)) + 1
            rest = data[end:]
            if len(rest) > self.longest and b"\r" not in rest:
                rest = rest[: self.longest + 1]  # one more, to recognize it as cut
            if end:
                yield self._cut(data[:end])
        self.ended = not rest
        if rest:
            yield self._cut(rest)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its number, from 1, without its end."""
        number = 1
        for block in self.blocks():
            whole = block.endswith(b"\n")
            for line in block[: -1 if whole else None].split(b"\n"):
                for part in line.rstrip(b"\r").split(b"\r"):
                    yield number, part
                number += 1
            number -= not whole  # the next block continues this line

    def _pieces(self) -> Iterator[bytes]:
        with reading(self.path) as file:
            while data := file.read(BLOCK_BYTES):
                yield data

    def _cut(self, block: bytes) -> bytes:
        lines = block.split(b"\n")
        if len(max(lines, key=len)) <= self.longest:
            return block
        return b"\n".join(b"\r".join(map(self._shortened, line.split(b"\r"))) for line in lines)

    def _shortened(self, line: bytes) -> bytes:
        self.cut += len(line) > self.longest
        return line[: self.longest]

"""Bytes that reach the disk completely or not at all, and locks that end with their process.

An `OSError` of a write becomes a `HostError` that states where and what to do: no space, no permission, a
disk that fails, a server of files that is gone. What is missing, and a name
that is too long, are for the caller.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import BusyError, HostError
from assay.inputs import naming, open_plain
from assay.units import human

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_SYNCED_AT_ONCE = 16
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ANOTHER_KIND = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP})
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_OF_THE_CALLER = frozenset({errno.ENOENT, errno.ENAMETOOLONG})
_OTHER_RUNS = "choose another directory with --runs"


@contextmanager
def writing(path: Path, *, elsewhere: str = _OTHER_RUNS) -> Iterator[None]:
    """Report in the user's terms why a write below `path` failed. Raises HostError.

    elsewhere  how the user chooses another place
    """
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_CALLER:
            raise
        if error.errno in _NO_SPACE:
            raise HostError(_no_space(path, error)) from error
        if error.errno in _NO_PERMISSION:
            raise HostError(
                f"{path}: can't be written ({error.strerror}); give yourself write access, or {elsewhere}"
            ) from error
        if error.errno in _ANOTHER_KIND:
            raise HostError(
                f"{error.filename2 or error.filename or path}: can't be written: {error.strerror}; remove or "
                "rename what is there, or choose another place"
            ) from error
        raise HostError(
            f"{error.filename or path}: can't be written: {error.strerror or error}. Nothing that was stored "
            "is lost; once the cause is gone, the same command resumes"
        ) from error


def make_directory(path: Path) -> None:
    """The directory, created with its parents. Raises HostError if it can't be created."""
    try:
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
    except (
        OSError
    ) as error:  # the properties of a named place are the user's to change: /proc, a name too long
        raise HostError(
            f"{path}: can't be created ({error.strerror}); choose another place with --runs"
        ) from error


def _no_space(path: Path, error: OSError) -> str:
    directory = next(p for p in (path, *path.parents) if p.is_dir())
    about = os.statvfs(directory)
    free = human(float(about.f_bavail * about.f_frsize), "B")
    if about.f_files and not about.f_favail:  # some file systems count no inodes
        free = "no more files can be created: no inode is"
    return (
        f"{path}: {error.strerror} ({free} free in {directory}). Nothing that was stored is lost and no "
        "file is damaged; free some space and run the same command again to resume"
    )


def write_atomic(
    path: Path,
    data: bytes,
    *,
    lasting: bool = True,
    after: Sequence[Path] = (),
    elsewhere: str = _OTHER_RUNS,
) -> None:
    """Replace `path` with `data`: a reader sees the old content or the new, never a part.

    lasting    wait until the disk has it; False if losing it in a power failure costs nothing (a cache)
    after      files whose content must be on disk before this
    elsewhere  how the user chooses another place

    Raises HostError if there is no space or no permission; the old content is kept.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path, elsewhere=elsewhere):
        try:
            with unfinished.open("wb", buffering=0) as file:
                _write_all(file.fileno(), data)
            if lasting:
                sync(*after, unfinished)
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):  # the write's failure is reported, not that a remainder was left
                unfinished.unlink(missing_ok=True)
            raise
        if lasting:
            sync(path.parent)


def write_lasting(path: Path, data: bytes) -> None:
    """Write a file that nobody reads yet, and wait until the disk has it."""
    with writing(path):
        path.write_bytes(data)
        sync(path, path.parent)


def deliver(path: Path, data: bytes, *, option: str = "") -> None:
    """Write a file where the user requested it, with its folder. It does not wait for the disk.

    An existing special file, such as /dev/stdout or a pipe, is written to and never replaced.

    option  of the command, which names the file: `-o`

    Raises HostError if it can't be written there, whatever the reason.
    """
    with delivering(path, option=option):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            write_atomic(path, data, lasting=False, elsewhere=_another_file(option))


@contextmanager
def delivering(path: Path, *, option: str = "") -> Iterator[None]:
    """Create the folder of a file that the user requested, and report why it can't be written.

    option  as for `deliver`

    Raises HostError, whatever the reason.
    """
    elsewhere = _another_file(option)
    try:
        with writing(path, elsewhere=elsewhere):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
    except OSError as error:
        raise HostError(f"{path}: can't be written: {error.strerror}; {elsewhere}") from error


def _another_file(option: str) -> str:
    return f"name another file with {option}" if option else "name another file"


def append(path: Path, data: bytes) -> None:
    """Append `data` to `path`; after an error the file has a prefix of it, so its size is meaningful."""
    with writing(path), path.open("ab", buffering=0) as file:
        _write_all(file.fileno(), data)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync(*paths: Path) -> None:
    """Wait until the disk has the content of files and the names in directories.

    They are asked for at once, so that it can write several in one go.
    """
    if len(paths) == 1:
        _sync(paths[0])
        return
    others = [_threads().submit(_sync, path) for path in paths[1:]]
    _sync(paths[0])
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads that wait for the disk: to start them takes longer than a fast disk."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_SYNCED_AT_ONCE)


os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of its parent's threads


def _sync(path: Path) -> None:
    with writing(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path, what: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold `path` as a lock that ends with this process, however it ends.

    what    what is held, as the user knows it
    wait_s  how long to wait for another holder

    Raises BusyError that names the holder's process, host and start.
    """
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + wait_s
        while not _take(descriptor):
            if time.monotonic() >= deadline:
                raise BusyError(f"{what} is held by {_holder(descriptor)}: wait until it ends, or stop it")
            time.sleep(0.02)
        with writing(path):
            os.ftruncate(descriptor, 0)
            about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
            os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
    finally:
        with naming(path):
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        with naming(path):
            os.close(descriptor)
    return False


def is_left(path: Path) -> bool:
    """Whether a process of this machine was the lock's last holder, and has ended."""
    if not path.is_file() or is_locked(path):
        return False
    try:
        return bool(json.loads(path.read_bytes())["host"] == socket.gethostname())
    except (ValueError, KeyError, TypeError):
        return False


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    """Who wrote the lock last; the text is also correct while the holder is writing."""
    try:
        about = json.loads(os.pread(descriptor, 4096, 0))
        since = datetime.fromtimestamp(about["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"another Assay process, {about['pid']} on {about['host']} since {since}"
    except (ValueError, KeyError, TypeError):
        return "another Assay process that has just started"


def position(path: Path, part: bytes) -> int | None:
    """Where a file first contains these bytes; None if it does not."""
    if path.stat().st_size == 0:  # an empty file can't be mapped
        return None
    with open_plain(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        offset = whole.find(part)
    return None if offset < 0 else offset

"""What the kernel's page cache holds of a file, and how to make it drop the file.

What is read from the cache comes from memory. Linux only, standard library only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable

PATIENCE_S, AGAIN_S = 1.0, 0.05

_libc = ctypes.CDLL(None, use_errno=True)


def let_go(fd: int) -> None:
    """Ask the kernel to drop a file from its cache; unwritten pages and pages mapped by others stay."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def tells(fd: int) -> bool:
    """Whether the kernel tells this user what it caches of a file: only its owner, or who may write to it."""
    if os.geteuid() in {0, os.fstat(fd).st_uid}:
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True)


def held(fd: int, places: Iterable[int], length: int) -> int:
    """At how many of these places (bytes from the start, whole pages) the cache holds any of `length` bytes.

    Raises PermissionError if this user may not know: then the kernel says that everything is cached.
    Source: mincore(2).
    """
    if not tells(fd):
        raise PermissionError("only the file's owner may see what the page cache holds of it")
    return sum(_holds(fd, place, length) for place in places)


def emptied(fd: int, places: Iterable[int], length: int) -> int:
    """Make the kernel drop a file from its cache; like `held`, returns what it still keeps.

    Repeated for a while: pages that another CPU has just used or written stay the first time.
    """
    until = time.monotonic() + PATIENCE_S
    places = [*places]
    while True:
        let_go(fd)
        kept = held(fd, places, length)
        if not kept or time.monotonic() > until:
            return kept
        time.sleep(AGAIN_S)


def _holds(fd: int, place: int, length: int) -> bool:
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    with mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=place) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), pages)
        del first  # a mapping that is still referenced can't be closed
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return any(page & 1 for page in pages)

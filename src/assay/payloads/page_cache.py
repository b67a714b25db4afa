"""What the kernel's page cache holds of a file, and how to have it let go.

What is read from there comes from memory. Linux only, standard library only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)


def let_go(fd: int) -> None:
    """Ask the kernel to drop what it holds of a file; what isn't written yet or another has mapped stays."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def held(fd: int, places: Iterable[int], length: int) -> int:
    """In how many of these places (bytes from the start, whole pages) the cache holds any of `length` bytes.

    Raises PermissionError for a file that is neither the user's own nor open to its writing: of such a one
    the kernel says that everything is held. Source: mincore(2).
    """
    owner = os.fstat(fd).st_uid == os.geteuid() or os.geteuid() == 0
    if not owner and not os.access(f"/proc/self/fd/{fd}", os.W_OK):
        raise PermissionError("what the page cache holds of it is told to its owner alone")
    return sum(_holds(fd, place, length) for place in places)


def _holds(fd: int, place: int, length: int) -> bool:
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    with mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=place) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), pages)
        del first  # a mapping that something points into can't be closed
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return any(page & 1 for page in pages)

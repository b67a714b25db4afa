"""Reading a file, bypassing the page cache: bytes/s sequentially, and seconds per random read.

    python -m assay_payloads.micro.disk --directory /scratch
    python -m assay_payloads.micro.disk --file /data/train.bin

Sequential: several threads, each reading the next block, so that this many reads are in progress. Random: one
read after the other, which is the latency without load. If the file system supports O_DIRECT, reads bypass
the page cache; if not, the kernel is asked to drop the file before each pass, and whether it
has: a file that stays in the cache is rejected, since its figure would be memory's. Caches beyond the kernel
(a drive's own, a file server's, a hypervisor's) can't be bypassed from here; use a file larger than they are.

The test file is written first: nothing in it can be compressed or deduplicated, each page has its number, and
its name is removed before the first byte is written, so that nothing is left however the program ends.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import itertools
import mmap
import os
import random
import re
import stat
import struct
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from assay_payloads.measuring.rank import Rank
from assay_payloads.measuring.service_level import percentile

ALIGNED = 4096  # bytes: no drive has larger sectors, and O_DIRECT needs whole ones
PATTERN_BYTES = 2**20  # larger than any file system's compression unit
PERCENTS = (50.0, 90.0, 99.0, 99.9)
FEWEST_BEYOND = 10  # reads slower than a percentile; with fewer it is omitted
FEWEST_READS = 2 * FEWEST_BEYOND  # so that there is a median
MOST_PLACES = 2**20  # read at random
SAMPLED = 64  # blocks checked in the page cache
PATIENCE_S, AGAIN_S = 1.0, 0.05

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Source:
    """The file to read.

    fd       open for reading through the page cache
    direct   open to bypass it; None if the file system does not support it
    size     bytes
    own      written by this program, so that the data read can be verified
    where    its path, for people
    """

    fd: int
    direct: int | None
    size: int
    own: bool
    where: str

    @property
    def reads_from(self) -> int:
        """The descriptor to read from."""
        return self.fd if self.direct is None else self.direct


def written(rank: Rank, directory: str, size: int) -> Source:
    """A test file of `size` bytes that no longer has a name."""
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if size > free / 2:
        rank.fail(
            f"{directory} has {free} bytes free, and a test file may take at most half; reduce --size-bytes"
        )
    fd, path = tempfile.mkstemp(prefix=".assay-disk-", dir=directory)
    try:
        direct = opened_directly(path)
    finally:
        Path(path).unlink()
    block = bytearray(os.urandom(PATTERN_BYTES))
    for start in range(0, size, PATTERN_BYTES):
        for page in range(0, PATTERN_BYTES, ALIGNED):
            struct.pack_into("<Q", block, page, (start + page) // ALIGNED)
        rest = memoryview(block)[: size - start]
        while rest:
            rest = rest[os.write(fd, rest) :]
    os.fsync(fd)
    ask_to_drop(fd)
    return Source(fd, direct, size, own=True, where=directory)


def given(path: str) -> Source:
    """An existing file."""
    fd = os.open(path, os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return Source(fd, opened_directly(path), os.fstat(fd).st_size, own=False, where=path)


def opened_directly(path: str) -> int | None:
    """The file, opened to bypass the page cache; None if the file system refuses."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None


def really_direct(source: Source, block: int) -> bool:
    """Whether O_DIRECT bypasses the page cache: some file systems accept the flag and ignore it.

    Only if the cache holds part of every sample is it asked to drop the file: others may be using it.
    If the kernel doesn't tell this user, the flag is believed.
    """
    if source.direct is None:
        return False
    tells_cached = shows_cached(source.fd)
    places = not_held(source, block) if tells_cached else sampled(source, block)
    if not places:
        ask_to_drop(source.fd)
        places = not_held(source, block)
    buffer = mmap.mmap(-1, block)
    try:
        for place in places:
            os.preadv(source.direct, [buffer], place)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return not tells_cached or (bool(places) and count_cached(source.fd, places, block) == 0)


def way(source: Source) -> str:
    """How the page cache is bypassed, as a fact of the result."""
    if source.direct is None:
        return "dropped before reading"
    return "passed by O_DIRECT" + ("" if shows_cached(source.fd) else ", not checked: another user's file")


def not_held(source: Source, block: int) -> list[int]:
    """Sampled offsets that are not in the page cache."""
    return [place for place in sampled(source, block) if not count_cached(source.fd, [place], block)]


def sampled(source: Source, block: int) -> list[int]:
    """Offsets of some blocks, evenly spaced over the file."""
    blocks = source.size // block
    count = min(SAMPLED, blocks)
    return [blocks * number // count * block for number in range(count)]


def emptied(rank: Rank, source: Source, block: int) -> None:
    """Make the page cache drop a file that is read through it; fail if it doesn't."""
    if source.direct is not None:
        return
    places = sampled(source, block)
    left = drop_cached(source.fd, places, block)
    if left:
        rank.fail(
            f"{source.where} is on {file_system(source.where)}, which reads through the page cache, and that "
            f"keeps {left} of {len(places)} sampled blocks: this would measure memory; use another directory"
        )


def read_at(source: Source, buffer: mmap.mmap, place: int) -> None:
    """Fill the buffer from there. Raises OSError if the data differs from what was written."""
    got = os.preadv(source.reads_from, [buffer], place)
    if got != len(buffer):
        raise OSError(errno.EIO, f"{got} of {len(buffer)} bytes at {place}")
    if source.own and struct.unpack_from("<Q", buffer)[0] != place // ALIGNED:
        raise OSError(errno.EIO, f"the data read at {place} differs from the data written there")


def in_order(rank: Rank, source: Source, block: int, readers: int, min_time_s: float) -> float:
    """Bytes per second over the file from its start, repeatedly until the time is over."""
    os.posix_fadvise(source.fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    blocks, seconds, done = source.size // block, 0.0, 0

    def reader(turns: itertools.count[int], until: float) -> int:
        buffer, read = mmap.mmap(-1, block), 0
        while (turn := next(turns)) < blocks and (read == 0 or time.perf_counter() < until):
            read_at(source, buffer, turn * block)
            read += 1
        return read

    with ThreadPoolExecutor(readers) as pool:
        while seconds < min_time_s:
            emptied(rank, source, block)
            turns, start = itertools.count(), time.perf_counter()
            under_way = [pool.submit(reader, turns, start + min_time_s - seconds) for _ in range(readers)]
            done += sum(each.result() for each in under_way)
            seconds += time.perf_counter() - start
    return done * block / seconds


def at_random(rank: Rank, source: Source, block: int, min_time_s: float, seed: int) -> list[float]:
    """Seconds of each read, no place twice, until the time is over."""
    emptied(rank, source, block)
    os.posix_fadvise(source.fd, 0, 0, os.POSIX_FADV_RANDOM)  # otherwise more than the block is read
    blocks, buffer = source.size // block, mmap.mmap(-1, block)
    seconds: list[float] = []
    order = random.Random(seed).sample(range(blocks), min(blocks, MOST_PLACES))  # noqa: S311 - an order
    end = time.perf_counter() + min_time_s
    for place in order:
        start = time.perf_counter()
        if start >= end and len(seconds) >= FEWEST_READS:
            break
        read_at(source, buffer, place * block)
        seconds.append(time.perf_counter() - start)
    return seconds


def file_system(path: str) -> str:
    """The type of the file system that a path is on, as the kernel names it."""
    resolved, types = Path(path).resolve(), {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        about, _, kind = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), about.split()[4])
        types[Path(point)] = kind.split()[0]  # of several on one mount point, the last is visible
    return next(types[point] for point in (resolved, *resolved.parents) if point in types)


def measure(rank: Rank, options: argparse.Namespace) -> None:
    """Read sequentially, then at random; print how, and the figures."""
    own = options.directory is not None
    source = written(rank, options.directory, options.size_bytes) if own else given(options.file)
    smallest = max(options.block_bytes, FEWEST_READS * options.random_block_bytes)
    if source.size < smallest:
        rank.fail(f"{source.where}: {source.size} bytes; it must have at least {smallest}")
    if not really_direct(source, options.block_bytes):
        source = Source(source.fd, None, source.size, source.own, source.where)
    facts = {"file_bytes": source.size, "file_system": file_system(source.where), "readers": options.readers}
    facts["page_cache"] = way(source)
    for key, value in facts.items():
        rank.log(key, value)
    rate = in_order(rank, source, options.block_bytes, options.readers, options.min_time_s)
    seconds = at_random(rank, source, options.random_block_bytes, options.min_time_s, options.seed)
    rank.log("read_bandwidth", rate, unit="B/s", labels={})
    rank.log("random_reads", len(seconds))
    for percent in PERCENTS:
        if len(seconds) * (100 - percent) / 100 >= FEWEST_BEYOND:
            latency = percentile(seconds, percent)
            rank.log("random_read_latency", latency, unit="s", labels={"percentile": percent})


def main() -> None:
    """Read the command line and measure; a system error ends the rank with its message."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--directory", help="directory for a test file")
    place.add_argument("--file", help="an existing file to read")
    parser.add_argument("--size-bytes", type=int, default=2**30, help="size of the test file")
    parser.add_argument("--block-bytes", type=int, default=2**20, help="size of a sequential read")
    parser.add_argument("--random-block-bytes", type=int, default=ALIGNED, help="size of a random read")
    parser.add_argument("--readers", type=int, default=4, help="concurrent sequential reads")
    parser.add_argument("--min-time-s", type=float, default=1.0, help="seconds to time each kind of read")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random offsets")
    options = parser.parse_args()
    rank = Rank()
    if rank.size != 1:
        rank.fail("a disk is read by one rank")
    rank.log("world_size", rank.size)
    try:
        measure(rank, options)
    except OSError as error:
        rank.fail(f"{options.directory or options.file}: {error.strerror or error}")
    rank.leave()


# The page cache: what is read from it comes from memory. Linux only, standard library only.


def ask_to_drop(fd: int) -> None:
    """Ask the kernel to drop a file from its cache; unwritten pages and pages mapped by others stay."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def shows_cached(fd: int) -> bool:
    """Whether the kernel tells this user what it caches of a file: only its owner, or who may write to it."""
    if os.geteuid() in {0, os.fstat(fd).st_uid}:
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True)


def count_cached(fd: int, places: Iterable[int], length: int) -> int:
    """At how many of these places (bytes from the start, whole pages) the cache holds any of `length` bytes.

    Raises PermissionError if this user may not know: then the kernel says that everything is cached.
    Source: mincore(2).
    """
    if not shows_cached(fd):
        raise PermissionError("only the file's owner may see what the page cache holds of it")
    return sum(_holds(fd, place, length) for place in places)


def drop_cached(fd: int, places: Iterable[int], length: int) -> int:
    """Make the kernel drop a file from its cache; like `held`, returns what it still keeps.

    Repeated for a while: pages that another CPU has just used or written stay the first time.
    """
    until = time.monotonic() + PATIENCE_S
    places = [*places]
    while True:
        ask_to_drop(fd)
        kept = count_cached(fd, places, length)
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


if __name__ == "__main__":
    main()

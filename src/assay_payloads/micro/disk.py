"""Reading a file past the page cache: bytes/s in order, and seconds a read at random places.

    python -m assay_payloads.micro.disk --directory /scratch
    python -m assay_payloads.micro.disk --file /data/train.bin

In order: several threads, each the next block, so that as many reads are under way. At random: one read
after the other, which is the latency without load. Where the file system takes O_DIRECT, reads go past the
page cache; where it doesn't, the kernel is asked to drop the file before each pass, and is asked whether it
has: a file that stays in the cache is refused, since its figure would be memory's. Caches beyond the kernel
(a drive's own, a file server's, a hypervisor's) can't be passed from here; a file larger than they are does.

The test file is written first: nothing in it can be compressed or found twice, each page has its number, and
its name is gone before the first byte is written, so that nothing is left however the program ends.
"""

from __future__ import annotations

import argparse
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from assay_payloads.measuring.rank import Rank
from assay_payloads.measuring.service_level import percentile
from assay_payloads.micro import page_cache

ALIGNED = 4096  # bytes: no drive has larger sectors, and O_DIRECT wants whole ones
PATTERN_BYTES = 2**20  # larger than what any file system compresses as one
PERCENTS = (50.0, 90.0, 99.0, 99.9)
FEWEST_BEYOND = 10  # reads slower than a percentile, below which it is left out
FEWEST_READS = 2 * FEWEST_BEYOND  # so that there is a median
MOST_PLACES = 2**20  # read at random
SAMPLED = 64  # blocks of which the page cache is asked


@dataclass(frozen=True)
class Source:
    """The file that is read.

    fd       open for reading through the page cache
    direct   open past it; None where the file system won't
    size     bytes
    own      written by this program, so that what is read can be checked
    where    its path, for people
    """

    fd: int
    direct: int | None
    size: int
    own: bool
    where: str

    @property
    def reads_from(self) -> int:
        """The descriptor that is read."""
        return self.fd if self.direct is None else self.direct


def written(rank: Rank, directory: str, size: int) -> Source:
    """A test file of `size` bytes that has no name any more."""
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if size > free / 2:
        rank.fail(f"{directory} has {free} bytes free and a test file takes at most half; --size-bytes less")
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
    page_cache.let_go(fd)
    return Source(fd, direct, size, own=True, where=directory)


def given(path: str) -> Source:
    """A file that is there."""
    fd = os.open(path, os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    return Source(fd, opened_directly(path), os.fstat(fd).st_size, own=False, where=path)


def opened_directly(path: str) -> int | None:
    """The file past the page cache; None where the file system refuses."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None


def really_direct(source: Source, block: int) -> bool:
    """Whether O_DIRECT reads and leaves the page cache alone: some file systems take the flag and ignore it.

    Only where the cache holds a part of all that is sampled is it asked to let go: others may use the file.
    Where the kernel doesn't tell this user, the flag is believed.
    """
    if source.direct is None:
        return False
    told = page_cache.tells(source.fd)
    places = not_held(source, block) if told else sampled(source, block)
    if not places:
        page_cache.let_go(source.fd)
        places = not_held(source, block)
    buffer = mmap.mmap(-1, block)
    try:
        for place in places:
            os.preadv(source.direct, [buffer], place)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return not told or (bool(places) and page_cache.held(source.fd, places, block) == 0)


def way(source: Source) -> str:
    """How the page cache is kept out, as a fact of the result."""
    if source.direct is None:
        return "dropped before reading"
    return "passed by O_DIRECT" + (
        "" if page_cache.tells(source.fd) else ", not checked: another user's file"
    )


def not_held(source: Source, block: int) -> list[int]:
    """Sampled places of which the page cache has nothing."""
    return [place for place in sampled(source, block) if not page_cache.held(source.fd, [place], block)]


def sampled(source: Source, block: int) -> list[int]:
    """Places of some blocks, evenly over the file."""
    blocks = source.size // block
    count = min(SAMPLED, blocks)
    return [blocks * at // count * block for at in range(count)]


def emptied(rank: Rank, source: Source, block: int) -> None:
    """Have the page cache let go of a file that is read through it; fails where it doesn't."""
    if source.direct is not None:
        return
    places = sampled(source, block)
    left = page_cache.emptied(source.fd, places, block)
    if left:
        rank.fail(
            f"{source.where} is on {file_system(source.where)}, which reads through the page cache, and that "
            f"keeps {left} of {len(places)} sampled blocks: it would measure memory; name another place"
        )


def read_at(source: Source, buffer: mmap.mmap, place: int) -> None:
    """Fill the buffer from there. Raises OSError where that is not what was written."""
    got = os.preadv(source.reads_from, [buffer], place)
    if got != len(buffer):
        raise OSError(errno.EIO, f"{got} of {len(buffer)} bytes at {place}")
    if source.own and struct.unpack_from("<Q", buffer)[0] != place // ALIGNED:
        raise OSError(errno.EIO, f"what was read at {place} is not what was written there")


def in_order(rank: Rank, source: Source, block: int, readers: int, min_time_s: float) -> float:
    """Bytes a second over the file from its start, again and again until the time is over."""
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
    os.posix_fadvise(source.fd, 0, 0, os.POSIX_FADV_RANDOM)  # or more than the block is read
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
    at, found = Path(path).resolve(), {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        about, _, kind = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), about.split()[4])
        found[Path(point)] = kind.split()[0]  # of several on one point the last is seen
    return next(found[point] for point in (at, *at.parents) if point in found)


def measure(rank: Rank, options: argparse.Namespace) -> None:
    """Read in order, then at random; print how, and the figures."""
    own = options.directory is not None
    source = written(rank, options.directory, options.size_bytes) if own else given(options.file)
    smallest = max(options.block_bytes, FEWEST_READS * options.random_block_bytes)
    if source.size < smallest:
        rank.fail(f"{source.where}: {source.size} bytes; it takes {smallest} or more")
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
    """Read the command line, measure; what the system refuses ends the rank with its words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--directory", help="where a test file is written")
    place.add_argument("--file", help="a file that is there, read as it is")
    parser.add_argument("--size-bytes", type=int, default=2**30, help="of the test file")
    parser.add_argument("--block-bytes", type=int, default=2**20, help="of a read in order")
    parser.add_argument("--random-block-bytes", type=int, default=ALIGNED, help="of a read at random")
    parser.add_argument("--readers", type=int, default=4, help="reads in order under way at once")
    parser.add_argument("--min-time-s", type=float, default=1.0, help="timed seconds of each")
    parser.add_argument("--seed", type=int, default=0, help="of the random places")
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


if __name__ == "__main__":
    main()

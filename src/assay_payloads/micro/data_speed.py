"""How fast this machine reads the files of a directory, bypassing the page cache, in a few seconds.

    python …/assay_payloads/micro/data_speed.py /data

Prints `:::ASSAY-PROBE {...}`, a flat JSON table under `data.`: the median of some rounds with the slowest and
the fastest, bytes/s, and what was read; `data.error` if it can't be read, `data.unmeasured` if it can,
but the figure would mislead. Several threads read the files in shuffled order, at most 64 MiB of each at a
time, so that large and small files are read as in a training. No byte is read twice.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where the package lies
from assay_payloads.micro import disk

MARK = ":::ASSAY-PROBE "
ROUNDS, ROUND_S = 10, 0.5
STALL_S = 5.0  # a round waits no longer than this for a byte
SHORTEST_S = 0.25  # a last round that was shorter says nothing
READERS = 8
BLOCK, PIECE = 2**20, 2**26  # bytes of one read, and of one thread's piece
MOST_FILES, LISTING_S = 20_000, 5.0  # only part of a directory with millions of files is read
FEWEST_BYTES = 2**22  # below this, the figure measures opening files


def files(directory: str) -> tuple[list[str], bool]:
    """Readable regular files in a directory and below it, and whether that is all of them."""
    paths: list[str] = []
    end = time.monotonic() + LISTING_S
    for folder, _, names in os.walk(directory, onerror=refuse):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - a Path for each of thousands is slow
            if os.path.isfile(path) and os.path.getsize(path):  # noqa: PTH113, PTH202
                paths.append(path)
        if len(paths) > MOST_FILES or time.monotonic() > end:
            return paths, False
    return paths, True


def refuse(error: OSError) -> None:
    """A directory that can't be listed ends the search: its contents are unknown."""
    raise error


class ReadThreads:
    """Threads that take pieces of files in turn, and what they have read.

    direct  bypass the page cache with O_DIRECT; otherwise each piece is dropped from it first, and `cached`
            counts the blocks that stayed
    """

    def __init__(self, paths: list[str], direct: bool) -> None:
        self.direct = direct
        self.cached = 0
        self.bytes = 0
        self.error: OSError | None = None
        self.over = False
        self._pieces = self._in_order(paths)
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._read_on, daemon=True) for _ in range(READERS)]

    @staticmethod
    def _in_order(paths: list[str]) -> Iterator[tuple[str, int]]:
        for path in paths:
            for start in range(0, os.path.getsize(path), PIECE):  # noqa: PTH202
                yield path, start

    def goes_on(self) -> bool:
        """Whether any thread is still reading."""
        return any(thread.is_alive() for thread in self.threads)

    def _read_on(self) -> None:
        buffer = mmap.mmap(-1, BLOCK)
        while not self.over:
            with self._lock:
                piece = next(self._pieces, None)
            if piece is None:
                return
            try:
                self._read(*piece, buffer)
            except OSError as error:
                self.error = error
                return

    def _read(self, path: str, start: int, buffer: mmap.mmap) -> None:
        source = disk.given(path)
        try:
            if not self.direct:
                disk.ask_to_drop(source.fd)
                self.cached += disk.count_cached(source.fd, [start], min(BLOCK, source.size - start))
            fd = source.fd if source.direct is None or not self.direct else source.direct
            for place in range(start, min(start + PIECE, source.size), BLOCK):
                got = os.preadv(fd, [buffer], place)
                with self._lock:
                    self.bytes += got
                if self.over or got < BLOCK:
                    return
        finally:
            for each in (source.fd, source.direct):
                if each is not None:
                    os.close(each)


def rates(reading: ReadThreads) -> list[float]:
    """Bytes/s of each round, during which the threads run continuously; the last may be shorter.

    A round waits for the first read that completes in it: bytes are counted when a read ends, so a disk
    that takes longer than a round for the reads in progress would otherwise appear to deliver nothing.
    """
    for thread in reading.threads:
        thread.start()
    rounds: list[float] = []
    for _ in range(ROUNDS):
        begun, before, took, goes_on = time.perf_counter(), reading.bytes, 0.0, True
        while goes_on and took < (STALL_S if reading.bytes == before else ROUND_S):
            time.sleep(0.01)
            took, goes_on = time.perf_counter() - begun, reading.goes_on()
        if took >= SHORTEST_S or not rounds:
            rounds.append((reading.bytes - before) / took)
        if not goes_on:
            break
    reading.over = True
    for thread in reading.threads:
        thread.join(30.0)
    return rounds


def measure(directory: str) -> Iterator[tuple[str, Any]]:
    """The table."""
    paths, is_all = files(directory)
    yield "directory", directory
    yield "files", len(paths)
    yield "files_all_listed", is_all
    if not paths:
        yield "error", f"{directory} has no nonempty file"
        return
    yield "file_system", disk.file_system(directory)
    random.Random(0).shuffle(paths)  # noqa: S311 - an order
    direct, how = past_cache(disk.given(max(paths[:64], key=os.path.getsize)))
    yield "page_cache", how
    reading = ReadThreads(paths, direct)
    rounds = rates(reading)
    yield "read_bytes", reading.bytes
    if reading.error is not None:
        kind = "error" if reading.error.errno else "unmeasured"  # page_cache's own has no number
        yield kind, words(reading.error, directory)
    elif reading.cached:
        yield "unmeasured", "the page cache doesn't drop the files, so this would measure memory"
    elif reading.bytes < FEWEST_BYTES:
        yield "unmeasured", f"{reading.bytes} bytes in total are too few to measure a speed"
    else:
        yield "rates", len(rounds)
        yield "rate", statistics.median(rounds)
        yield "rate_low", min(rounds)
        yield "rate_high", max(rounds)


def past_cache(source: disk.Source) -> tuple[bool, str]:
    """Whether to read files like this one with O_DIRECT, and as text how the page cache is bypassed."""
    block = min(BLOCK, source.size // disk.ALIGNED * disk.ALIGNED)
    try:
        if block and disk.really_direct(source, block):
            return True, "passed by O_DIRECT"
    except PermissionError:  # only a file's owner may see what the cache holds
        if source.direct is not None:
            return True, "O_DIRECT, which another's files don't let check"
    return False, "dropped before reading"


def words(error: OSError, directory: str) -> str:
    """What the system refused, and where."""
    return f"{error.filename or directory}: {error.strerror or error}"


def main(directory: str) -> None:
    """Print the table; a system error becomes its `data.error`."""
    table: dict[str, Any] = {"probe.version": 1}
    try:
        for name, value in measure(directory):
            table[f"data.{name}"] = value
    except OSError as error:
        table["data.error"] = words(error, directory)
    sys.stdout.write(MARK + json.dumps(table, allow_nan=False) + "\n")


if __name__ == "__main__":
    main(str(Path(sys.argv[1])))

"""Memory bandwidth with STREAM's triad, a = b + s·c, on float64 arrays far larger than the caches: bytes/s.

    python -m assay_payloads.micro.membw
    torchrun --nproc-per-node 2 -m assay_payloads.micro.membw

Bytes are counted by STREAM's convention: three arrays, two read and one written. Additional reads of a CPU,
which fetches a cache line before writing to it, aren't counted. An array has at least four times the
size of all last-level caches together, STREAM's rule; a smaller one is rejected, since it would measure the
cache. The ranks run concurrently, each on its own arrays.

Source: J. D. McCalpin, STREAM, https://www.cs.virginia.edu/stream/ref.html
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import torch

from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.measuring.rank import Rank

CACHES = 4  # an array is at least this many times the last-level caches
SMALLEST_ARRAY = {"cpu": 2**26, "cuda": 2**29}  # bytes; below, launch overhead takes a visible share
CHECKED_AT_ONCE = 2**24  # elements: comparing makes a copy of eight bytes each
PROCESS_BYTES = 2**29  # of Python, torch, and its libraries, approximately
STRETCH_S = 0.02  # triads are timed in stretches of at least this length, to amortize the clock's own cost
B, C, SCALE = 2.0, 0.5, 3.0  # the sum is exact, so every element can be compared with it


def last_level_cache_bytes(device: torch.device) -> int | None:
    """All last-level caches of this device together, bytes; None if the system doesn't say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes: dict[tuple[int, str], int] = {}
    for cache in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        level, shared, size = (
            (cache / name).read_text().strip() for name in ("level", "shared_cpu_list", "size")
        )
        sizes[int(level), shared] = int(size.removesuffix("K")) * 1024
    if not sizes:
        return None
    last = max(level for level, _ in sizes)
    return sum(size for (level, _), size in sizes.items() if level == last)


def array_bytes(rank: Rank, requested: int | None) -> int:
    """Bytes of one array: as requested, unless caches would hold it; otherwise from STREAM's rule."""
    cache = last_level_cache_bytes(rank.device)
    rank.log("last_level_cache_bytes", cache)
    smallest = CACHES * (cache or 0)
    if requested is None:
        return max(smallest, SMALLEST_ARRAY[rank.device.type])
    if requested < smallest:
        rank.fail(
            f"arrays of {requested} bytes would measure the cache; set --array-bytes to at least {smallest}"
        )
    return requested


def has_room(rank: Rank, size: int) -> None:
    """Fail, rather than be killed, if the memory that this process may use is too small for the arrays."""
    if rank.device.type != "cpu":
        return
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    may_use = cgroups.memory_bytes(FileTree()) or there
    needed = 3 * size + PROCESS_BYTES
    if may_use < needed:
        rank.fail(
            f"three arrays of {size} bytes, sized by the caches, take {needed} bytes, but "
            f"the job may use {may_use}: give it more memory"
        )


def time_triads(rank: Rank, elements: int, min_time_s: float) -> list[float]:
    """Seconds per triad on this rank, one figure per stretch; fails if an element is wrong."""
    b = torch.full((elements,), B, dtype=torch.float64, device=rank.device)
    c = torch.full_like(b, C)
    a = torch.zeros_like(b)

    def seconds_of(triads: int) -> float:
        start = rank.clock()
        for _ in range(triads):
            torch.add(b, c, alpha=SCALE, out=a)
        return rank.clock() - start

    seconds_of(1)
    once = rank.over_ranks([seconds_of(2) / 2], "MAX")[0]
    triads = max(1, round(STRETCH_S / once))
    stretches = max(5, round(min_time_s / (triads * once)))
    a.zero_()
    seconds = []
    for _ in range(stretches):
        rank.over_ranks([0.0], "MAX")
        seconds.append(seconds_of(triads) / triads)
    wrong = sum(int((part != B + SCALE * C).sum()) for part in a.split(CHECKED_AT_ONCE))
    if wrong:
        rank.fail(f"{wrong} of {elements} elements are wrong")
    return seconds


def main() -> None:
    """Read the command line, measure, print the bandwidth of all ranks together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--array-bytes", type=int, help="size of one array in bytes; default: by STREAM's rule"
    )
    parser.add_argument("--min-time-s", type=float, default=1.0, help="timed seconds")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    options = parser.parse_args()
    if not options.min_time_s > 0:
        parser.error("--min-time-s must be above 0")
    rank = Rank()
    rank.join(options.device)
    size = array_bytes(rank, options.array_bytes)
    has_room(rank, size)
    elements = size // 8
    rank.log("array_bytes", elements * 8)
    rank.log("bytes_counted", "three arrays a triad (STREAM's convention)")
    slowest = rank.over_ranks(time_triads(rank, elements, options.min_time_s), "MAX")
    if rank.rank == 0:
        moved = rank.size * 3 * elements * 8
        rank.log("bandwidth", moved / statistics.median(slowest), unit="B/s", labels={}, triads=len(slowest))
        rank.log("bandwidth_best", moved / min(slowest), unit="B/s", labels={})
    rank.leave()


if __name__ == "__main__":
    main()

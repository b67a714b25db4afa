"""Memory bandwidth by STREAM's triad, a = b + s·c, on arrays of float64 far larger than the caches: bytes/s.

    python membw.py
    torchrun --nproc-per-node 2 membw.py

Bytes are counted by STREAM's convention: three arrays, two read and one written. What a CPU reads besides,
because it fetches a cache line before writing to it, isn't counted. An array has at least four times the
size of all last-level caches together, STREAM's rule; a smaller one is refused, it would measure the cache.
The ranks run at the same time, each on its own arrays.

Source: J. D. McCalpin, STREAM, https://www.cs.virginia.edu/stream/ref.html
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

# These lines are the same in every payload, so that each travels as one file. ---------------------------
START, END = "INTERVAL_START", "INTERVAL_END"
VARIABLES = (  # rank, size and local rank: torchrun's, else Open MPI's, else Slurm's
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


class Rank:
    """One process of the job: its place, its device, its log, its meetings with the others."""

    def __init__(self) -> None:
        self.rank, self.size, self.local_rank, self._lines = 0, 1, 0, 0
        names = next((names for names in VARIABLES if names[0] in os.environ), None)
        if names is not None:
            try:
                self.rank, self.size, self.local_rank = (int(os.environ[name]) for name in names)
            except (KeyError, ValueError):
                found = ", ".join(f"{name}={os.environ.get(name, '(not set)')}" for name in names)
                self.fail(f"these three must be whole numbers: {found}")
        if not (0 <= self.rank < self.size and self.local_rank >= 0):
            self.fail(f"rank {self.rank} (local {self.local_rank}) of {self.size} ranks can't be")
        if self.size > 1:
            self._check_meeting_place()
        self.log("payload", event=START)

    def _check_meeting_place(self) -> None:
        address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        if not address or not port:
            self.fail(f"{self.size} ranks need MASTER_ADDR and MASTER_PORT; found {address!r} and {port!r}")
        if not (port.isdecimal() and 0 < int(port) < 65536):
            self.fail(f"MASTER_PORT={port} is no port; expected a number from 1 to 65535")
        try:
            socket.getaddrinfo(address, int(port))
        except OSError as error:
            self.fail(f"MASTER_ADDR={address} can't be resolved: {error}")

    def log(self, key: str, value: object = None, event: str = "POINT_IN_TIME", **metadata: object) -> None:
        """Print one MLLOG line: with `unit` a measurement, told from its siblings by `labels`; else a fact.

        A line is written at once, whole, so that ranks that share an output don't mix theirs.
        """
        about: dict[str, object] = {"rank": self.rank, "seq": self._lines, "file": Path(__file__).name}
        about |= {"lineno": sys._getframe(1).f_lineno} | metadata
        entry = {"namespace": "assay", "time_ms": time.time_ns() // 10**6, "event_type": event, "key": key}
        entry |= {"value": value, "metadata": about}
        sys.stdout.write(f":::MLLOG {json.dumps(entry, allow_nan=False)}\n")
        sys.stdout.flush()
        self._lines += 1

    def fail(self, message: str) -> NoReturn:
        """End this rank with exit code 1 and a message: no figure is printed for a failure."""
        sys.exit(f"{Path(__file__).name}: rank {self.rank}: {message}")

    def join(self, device: str, backend: str = "auto") -> None:
        """Take a device (`auto`, `cpu`, `cuda`), meet the other ranks, state what the job runs on."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device("cpu") if device == "cpu" else self._take_gpu()
        if backend == "auto":
            backend = "nccl" if device == "cuda" else "gloo"
        if backend == "nccl" and device == "cpu":
            self.fail("nccl connects GPUs and the device is cpu; use gloo")
        if self.size > 1:
            dist.init_process_group(backend, rank=self.rank, world_size=self.size)
        facts = {"world_size": self.size, "backend": backend if self.size > 1 else "none", "device": device}
        for key, value in (facts | self._software()).items():
            self.log(key, value)

    def _take_gpu(self) -> torch.device:
        count = torch.cuda.device_count()
        if count != 1 and self.local_rank >= count:  # a launcher may show each rank one GPU alone
            self.fail(
                f"no GPU for local rank {self.local_rank}, {count} visible: start fewer ranks or use cpu"
            )
        torch.cuda.set_device(self.local_rank if count > 1 else 0)
        return torch.device("cuda", torch.cuda.current_device())

    def _software(self) -> dict[str, object]:
        facts: dict[str, object] = {"threads": torch.get_num_threads(), "torch_version": torch.__version__}
        if self.device.type == "cpu":
            info = Path("/proc/cpuinfo")
            lines = info.read_text().splitlines() if info.exists() else []
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
            return facts | {"device_name": names[0] if names else platform.machine()}
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else None
        cuda = {"cuda_version": torch.version.cuda, "cudnn_version": torch.backends.cudnn.version()}
        return facts | cuda | {"nccl_version": nccl, "device_name": torch.cuda.get_device_name(self.device)}

    def clock(self) -> float:
        """Seconds on a monotonic clock, once this rank's device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def over_ranks(self, values: list[float], how: str) -> list[float]:
        """Each value's `MAX`, `MIN` or `SUM` over all ranks, on every rank; all of them wait here."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
        combined: list[float] = tensor.tolist()
        return combined

    def leave(self) -> None:
        """Say that the program came to its end and leave the job."""
        self.log("payload", event=END)
        if self.size > 1:
            dist.destroy_process_group()


# End of the lines that are the same in every payload. ----------------------------------------------------


CACHES = 4  # an array is at least so many times the last-level caches
SMALLEST_ARRAY = {"cpu": 2**26, "cuda": 2**29}  # bytes; below, starting the work takes a visible share
STRETCH_S = 0.02  # triads are timed in stretches of at least so long, against the clock's own cost
B, C, SCALE = 2.0, 0.5, 3.0  # the sum is exact, so every element can be compared with it


def last_level_cache_bytes(device: torch.device) -> int | None:
    """All last-level caches of this device together, bytes; None where the system doesn't say."""
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


def array_bytes(rank: Rank, asked: int | None) -> int:
    """Bytes of one array: what was asked, refused where caches would hold it; else as STREAM's rule wants."""
    cache = last_level_cache_bytes(rank.device)
    rank.log("last_level_cache_bytes", cache)
    smallest = CACHES * (cache or 0)
    if asked is None:
        return max(smallest, SMALLEST_ARRAY[rank.device.type])
    if asked < smallest:
        rank.fail(f"arrays of {asked} bytes would measure the cache; give --array-bytes {smallest} or more")
    return asked


def time_triads(rank: Rank, elements: int, min_time_s: float) -> list[float]:
    """Seconds a triad on this rank, one figure a stretch; fails when an element comes out wrong."""
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
    wrong = elements - int((a == B + SCALE * C).sum())
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
    elements = array_bytes(rank, options.array_bytes) // 8
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

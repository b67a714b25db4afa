"""All-reduce (sum of float32) between all ranks, one payload size after another: bandwidth and latency.

    torchrun --nproc-per-node 2 allreduce.py --payload-bytes 8 1048576

Time of an operation is that of the slowest rank, the mean of many, one after the other.
Algorithmic bandwidth is payload / time; bus bandwidth is that times 2(n-1)/n for n ranks, which does not
depend on n where the links are the limit. Before and after the timing an all-reduce of known values is
checked, element by element, on every rank.

Source: nccl-tests, doc/PERFORMANCE.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
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


WARMUP = 5  # operations before the timing: connections are made, algorithms chosen
ELEMENT_BYTES = 4


def check(rank: Rank, elements: int) -> None:
    """All-reduce known values and compare every element with the sum over the ranks.

    Element i of rank r is (r mod 7 + 1)·(i mod 251 + 1): whole numbers whose sum float32 holds exactly
    for up to 9,000 ranks, in whatever order they are added.
    """
    pattern = torch.arange(elements, device=rank.device).remainder_(251).add_(1).float()
    data = pattern * (rank.rank % 7 + 1)
    dist.all_reduce(data)
    expected = pattern * sum(r % 7 + 1 for r in range(rank.size))
    wrong = int((data != expected).sum())
    if wrong:
        rank.fail(
            f"{wrong} of {elements} elements are not the sum over the ranks, payload {4 * elements} bytes"
        )


def seconds_each(rank: Rank, data: torch.Tensor, operations: int) -> float:
    """Mean seconds of an operation, started together, on the slowest rank."""
    rank.over_ranks([0.0], "MAX")
    start = rank.clock()
    for _ in range(operations):
        dist.all_reduce(data)
    return rank.over_ranks([(rank.clock() - start) / operations], "MAX")[0]


def measure(rank: Rank, payload_bytes: int, min_time_s: float) -> None:
    """One payload size: check, warm up, time, check again, print."""
    elements = payload_bytes // ELEMENT_BYTES
    check(rank, elements)
    data = torch.zeros(elements, device=rank.device)  # zeros stay zeros, however often they are summed
    seconds_each(rank, data, WARMUP)
    operations = max(WARMUP, round(min_time_s / seconds_each(rank, data, WARMUP)))
    seconds = seconds_each(rank, data, operations)
    check(rank, elements)
    if rank.rank == 0:
        labels = {"payload_bytes": payload_bytes}
        algbw = payload_bytes / seconds
        busbw = algbw * 2 * (rank.size - 1) / rank.size
        rank.log("busbw", busbw, unit="B/s", labels=labels, operations=operations)
        rank.log("algbw", algbw, unit="B/s", labels=labels)
        rank.log("latency", seconds, unit="s", labels=labels)


def main() -> None:
    """Read the command line, measure every payload size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [8, 2**10, 2**17, 2**20, 2**24]
    parser.add_argument(
        "--payload-bytes", type=int, nargs="+", default=sizes, help="bytes on each rank, multiples of 4"
    )
    parser.add_argument("--min-time-s", type=float, default=0.5, help="timed seconds for each size")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--backend", choices=["auto", "gloo", "nccl"], default="auto", help="auto: nccl on GPUs"
    )
    options = parser.parse_args()
    if any(size < ELEMENT_BYTES or size % ELEMENT_BYTES for size in options.payload_bytes):
        parser.error("--payload-bytes must be multiples of 4 above 0: float32 values are summed")
    if not options.min_time_s > 0:
        parser.error("--min-time-s must be above 0")
    rank = Rank()
    if rank.size < 2:
        rank.fail("an all-reduce needs at least 2 ranks: start it with torchrun, srun or mpirun")
    rank.join(options.device, options.backend)
    for payload_bytes in options.payload_bytes:
        measure(rank, payload_bytes, options.min_time_s)
    rank.leave()


if __name__ == "__main__":
    main()

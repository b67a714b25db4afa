"""Matrix products C = A·B of one size and number format after another: FLOP/s, every result checked.

    python matmul.py --sizes 1024 2048 --dtypes fp32 bf16
    torchrun --nproc-per-node 2 matmul.py

The ranks multiply at the same time, each its own matrices, so that a node is measured as it is used.
A product of n×n matrices counts 2·n³ operations.
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


ROUNDS = 5  # timed stretches of each point; all ranks start each together
SAMPLED = 64  # rows and columns whose crossings are checked
# Type, and how far a checked entry may lie from the float64 product. Entries are sums of n products of
# normally distributed numbers and have the standard deviation √n, so the difference is counted in √n.
# Rounding of the result (up to 4 standard deviations) or of the factors (tf32) explains less than this;
# a missing or doubled part of the sum as small as 1 % of it is more.
DTYPES = {
    "fp32": (torch.float32, 2e-5),
    "tf32": (torch.float32, 5e-3),
    "bf16": (torch.bfloat16, 4e-2),
    "fp16": (torch.float16, 8e-3),
}


def largest_error(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> float:
    """Largest difference of sampled entries of C from the float64 product, in units of √n."""
    n = len(a)
    picked = torch.randint(n, (2, min(n, SAMPLED)), device=a.device)
    expected = a[picked[0]].double() @ b[:, picked[1]].double()
    found = c[picked[0]][:, picked[1]].double()
    worst = (found - expected).abs().max().item()
    return float(worst / n**0.5)


def time_products(
    rank: Rank, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, min_time_s: float
) -> list[float]:
    """Seconds a product on this rank, one figure a round; all ranks do the same number of products."""

    def seconds_of(products: int) -> float:
        start = rank.clock()
        for _ in range(products):
            torch.mm(a, b, out=c)
        return rank.clock() - start

    seconds_of(2)  # the first ones choose a kernel and wake the clocks
    products, elapsed = 1, seconds_of(1)
    while elapsed < min_time_s / ROUNDS / 4:
        products *= 2
        elapsed = seconds_of(products)
    wanted = products * min_time_s / ROUNDS / elapsed
    products = max(1, round(rank.over_ranks([wanted], "MAX")[0]))
    c.zero_()
    seconds = []
    for _ in range(ROUNDS):
        rank.over_ranks([0.0], "MAX")
        seconds.append(seconds_of(products) / products)
    return seconds


def measure(rank: Rank, size: int, dtype: str, min_time_s: float) -> None:
    """One point: time, check, then print the rate of all ranks together and of the slowest."""
    kind, tolerance = DTYPES[dtype]
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    a, b = (torch.randn(size, size, device=rank.device).to(kind) for _ in range(2))
    c = torch.empty_like(a)
    seconds = time_products(rank, a, b, c, min_time_s)
    error = largest_error(a, b, c)
    if not error <= tolerance:
        rank.fail(f"wrong product, {size} {dtype}: error {error:.3g}√n, at most {tolerance:g}√n is rounding")
    slowest = rank.over_ranks(seconds, "MAX")
    slowest_mean = rank.over_ranks([sum(seconds)], "MAX")[0] / ROUNDS
    if rank.rank == 0:
        operations, labels = 2 * size**3, {"size": size, "dtype": dtype}
        total = rank.size * operations * ROUNDS / sum(slowest)
        rank.log("flop_rate", total, unit="FLOP/s", labels=labels, rounds=ROUNDS)
        rank.log("flop_rate_slowest", operations / slowest_mean, unit="FLOP/s", labels=labels)


def main() -> None:
    """Read the command line, measure every point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048], help="rows of A, B and C")
    parser.add_argument(
        "--dtypes", nargs="+", choices=DTYPES, default=["fp32", "bf16"], help="tf32: GPU only"
    )
    parser.add_argument("--min-time-s", type=float, default=0.5, help="timed seconds for each point")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.sizes) < 1 or not options.min_time_s > 0:
        parser.error("--sizes and --min-time-s must be above 0")
    rank = Rank()
    rank.join(options.device)
    if "tf32" in options.dtypes and rank.device.type == "cpu":
        rank.fail("tf32 is a format of NVIDIA GPUs; leave it out of --dtypes on a CPU")
    rank.log("seed", options.seed)
    torch.manual_seed(options.seed + rank.rank)
    for dtype in options.dtypes:
        for size in options.sizes:
            measure(rank, size, dtype, options.min_time_s)
    rank.leave()


if __name__ == "__main__":
    main()

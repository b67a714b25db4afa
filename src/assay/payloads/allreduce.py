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

import torch
import torch.distributed as dist

from rank import Rank

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

"""Matrix products C = A·B, one size and number format at a time: FLOP/s, with every result checked.

    python -m assay_payloads.micro.matmul --sizes 1024 2048 --dtypes fp32 bf16
    torchrun --nproc-per-node 2 -m assay_payloads.micro.matmul

The ranks multiply concurrently, each its own matrices, so that a node is measured as it is used.
A product of n×n matrices counts 2·n³ operations.
"""

from __future__ import annotations

import argparse

import torch

from assay_payloads.measuring.rank import Rank

ROUNDS = 5  # timed stretches of each point; all ranks start each stretch together
SAMPLED = 64  # rows and columns whose intersections are checked
# Type, and how far a checked entry may be from the float64 product. Entries are sums of n products of
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
    computed = c[picked[0]][:, picked[1]].double()
    worst = (computed - expected).abs().max().item()
    return float(worst / n**0.5)


def time_products(
    rank: Rank, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, min_time_s: float
) -> list[float]:
    """Seconds per product on this rank, one figure per round; all ranks compute the same number."""

    def seconds_of(products: int) -> float:
        start = rank.clock()
        for _ in range(products):
            torch.mm(a, b, out=c)
        return rank.clock() - start

    seconds_of(2)  # the first ones select a kernel and raise the clocks
    products, elapsed = 1, seconds_of(1)
    while elapsed < min_time_s / ROUNDS / 4:
        products *= 2
        elapsed = seconds_of(products)
    estimate = products * min_time_s / ROUNDS / elapsed
    products = max(1, round(rank.over_ranks([estimate], "MAX")[0]))
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
        rank.fail(
            f"wrong product, {size} {dtype}: error {error:.3g}√n; rounding explains at most {tolerance:g}√n"
        )
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
    parser.add_argument("--min-time-s", type=float, default=0.5, help="seconds to time each point")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.sizes) < 1 or not options.min_time_s > 0:
        parser.error("--sizes and --min-time-s must be above 0")
    rank = Rank()
    rank.join(options.device)
    if "tf32" in options.dtypes and rank.device.type == "cpu":
        rank.fail("tf32 is a format of NVIDIA GPUs; remove it from --dtypes on a CPU")
    rank.log("seed", options.seed)
    torch.manual_seed(options.seed + rank.rank)
    for dtype in options.dtypes:
        for size in options.sizes:
            measure(rank, size, dtype, options.min_time_s)
    rank.leave()


if __name__ == "__main__":
    main()

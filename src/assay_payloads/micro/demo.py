"""Work for `assay demo`: a line with a rate after half a second, on one core.

    python -m assay_payloads.micro.demo products --dtype {float32,float64}
    python -m assay_payloads.micro.demo sums --over {list,generator}

The rate is that of the fastest of many short rounds: what else runs on the machine can only slow one down.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

SECONDS = 0.5
CALLS = 50  # in a round: a few milliseconds


def products(dtype: str) -> Callable[[], object]:
    """A product of two 192 × 192 matrices, on one thread."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy is imported
    import numpy as np

    a = np.random.default_rng(1).random((192, 192)).astype(dtype)
    return lambda: a @ a


def sums(over: str) -> Callable[[], object]:
    """A sum of 1,000 squares."""
    numbers = range(1000)
    if over == "list":
        return lambda: sum([n * n for n in numbers])
    return lambda: sum(n * n for n in numbers)


def best_rate(work: Callable[[], object], seconds: float = SECONDS) -> float:
    """Calls per second in the fastest round."""
    now, fastest = time.perf_counter, 0.0
    end = now() + seconds
    while now() < end:
        began = now()
        for _ in range(CALLS):
            work()
        fastest = max(fastest, CALLS / (now() - began))
    return fastest


def main() -> None:
    """Do the work that the command line names."""
    parser = argparse.ArgumentParser()
    works = parser.add_subparsers(dest="work", required=True)
    works.add_parser("products").add_argument("--dtype", choices=("float32", "float64"), default="float32")
    works.add_parser("sums").add_argument("--over", choices=("list", "generator"), default="list")
    options = parser.parse_args()
    work = products(options.dtype) if options.work == "products" else sums(options.over)
    print(f"{options.work}/s: {best_rate(work):,.1f}", flush=True)


if __name__ == "__main__":
    main()

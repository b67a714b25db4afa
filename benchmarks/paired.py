"""Two ways of doing the same thing, timed alternately in one run: ratios with an interval.

A B, B A, A B …: a machine that slows down slows both. The result is the geometric mean of the ratios
of the pairs, with a t interval on their logarithms.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of A/B over pairs, with an interval of the given confidence."""

    value: float
    low: float
    high: float
    pairs: int
    confidence: float

    def __str__(self) -> str:
        return (
            f"{self.value:.4g} ({self.confidence:.0%} interval {self.low:.4g} to {self.high:.4g}, "
            f"{self.pairs} pairs)"
        )


def ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Ratio A/B of positive paired figures. Raises ValueError for fewer than two pairs."""
    from scipy import stats

    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    n = len(logs)
    if n < 2:
        raise ValueError("a ratio with an interval needs two pairs")
    mean = sum(logs) / n
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1) / n)
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * spread
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, confidence)


def in_turn(
    a: Callable[[], float], b: Callable[[], float], pairs: int, *, warm_up: int = 1
) -> tuple[list[float], list[float]]:
    """Call A and B in turn, reversing the order in every other pair; returns what each returned."""
    for _ in range(warm_up):
        a()
        b()
    seen_a, seen_b = [], []
    for number in range(pairs):
        if number % 2:
            seen_b.append(b())
            seen_a.append(a())
        else:
            seen_a.append(a())
            seen_b.append(b())
        print(f"\r  pair {number + 1} of {pairs}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True)
    return seen_a, seen_b


def wall_s(argv: Sequence[str], **options: object) -> float:
    """Wall time of a whole process, seconds. Raises CalledProcessError if it fails.

    Python keeps the bytecode of what it imports, as pip does when it installs: otherwise a checkout would be
    compiled again at each start, while an installed program would not.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, **options)  # type: ignore[call-overload]
    return time.perf_counter() - begin

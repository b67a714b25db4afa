"""Counts primes by trial division, and prints how many numbers it tested per second."""

from __future__ import annotations

import argparse
import time

from assay_payloads.measuring.rank import Rank


def is_prime(number: int) -> bool:
    """Whether no smaller number from 2 on divides it."""
    if number % 2 == 0:
        return number == 2
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return number > 1


def sieved(limit: int) -> int:
    """How many primes there are up to the limit, counted in another way."""
    candidates = bytearray([1]) * (limit + 1)
    for number in range(2, int(limit**0.5) + 1):
        if candidates[number]:
            candidates[number * number :: number] = bytes(len(candidates[number * number :: number]))
    return sum(candidates) - 2


def main() -> None:
    """Read the command line, count, check the count, print the rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=100_000)
    limit = parser.parse_args().limit
    rank = Rank()
    start = time.perf_counter()
    count = sum(map(is_prime, range(2, limit + 1)))
    seconds = time.perf_counter() - start
    if count != sieved(limit):
        rank.fail(f"counted {count} primes up to {limit}, but there are {sieved(limit)}")
    rank.log("primes", count)
    rank.log("rate", (limit - 1) / seconds, unit="1/s", labels={})
    rank.leave()


if __name__ == "__main__":
    main()

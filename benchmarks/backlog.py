"""How often a stretch of load is VALID at a share of a server's capacity, and what searches conclude.

`python benchmarks/backlog.py` takes a few minutes; the seed is fixed. Simulated servers handle 10 requests
per second, for 60 s each stretch, with a bound of 6 s on the first token:

    one length   32 concurrent answers, all of the same length
    long tail    32 concurrent answers, lengths lognormal with sigma 0.8
    shared       all answers concurrently, slower together above 32; lengths from half to 1.5 times the mean

Then how far "99 % of all are in time" is from its 1 % of error because late requests come in groups, and
five pairs of searches: with an equal server, and with one that is 6 % faster.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from options import parse, sized
from paired import ratio

from assay_payloads.measuring.service_level import LatencyBounds, backlog_growth, percentile, proves
from assay_payloads.serving import llm_client
from assay_payloads.serving.llm_load import Request, Stretch, poisson_arrivals

CAPACITY, AT_A_TIME = 10.0, 32  # requests a second; answers
SECONDS, FEWEST = 60.0, 500
LONG = 100_000  # requests, of a stretch whose 99th percentile is nearly the server's own
LOADS = (0.80, 0.90, 0.95, 1.00, 1.04, 1.08, 1.15)
BOUNDS = LatencyBounds(6.0, None, 99.0)
RUNS, MARGIN, FASTER = 5, 0.03, 1.06

Lengths = Callable[[random.Random], float]  # of an answer, in means
Times = tuple[list[float], list[float]]  # of the first token and of the last, of each request


def one_length(_chance: random.Random) -> float:
    """All answers are equally long."""
    return 1.0


def long_tail(chance: random.Random) -> float:
    """Lognormal lengths: one in a hundred is five times as long as the mean."""
    return chance.lognormvariate(-(0.8**2) / 2, 0.8)


def half_to_one_and_a_half(chance: random.Random) -> float:
    """Lengths spread evenly."""
    return chance.uniform(0.5, 1.5)


def in_slots(due: Sequence[float], seconds: Sequence[float]) -> Times:
    """A limited number of concurrent answers, each in its own slot; the others wait for their first token."""
    free, first = [0.0] * AT_A_TIME, []
    for at, taken in zip(due, seconds, strict=True):
        first.append(max(heapq.heappop(free), at))
        heapq.heappush(free, first[-1] + taken)
    return first, [begin + taken for begin, taken in zip(first, seconds, strict=True)]


def shared(due: Sequence[float], seconds: Sequence[float]) -> Times:
    """All answers concurrently at equal speeds: full speed up to a limit, no faster in total above it."""
    last, under_way = [0.0] * len(due), list[tuple[float, int]]()
    now = done = 0.0  # done: seconds of work that an answer has had which is under way since the start
    arrivals = iter([*enumerate(due), (len(due), math.inf)])
    number, comes = next(arrivals)
    while number < len(due) or under_way:
        speed = min(1.0, AT_A_TIME / max(1, len(under_way)))
        ends = now + (under_way[0][0] - done) / speed if under_way else math.inf
        if comes <= ends:
            done, now = done + (comes - now) * speed, comes
            heapq.heappush(under_way, (done + seconds[number], number))
            number, comes = next(arrivals)
        else:
            done, now = under_way[0][0], ends
            last[heapq.heappop(under_way)[1]] = now
    return [at + 0.1 * (end - at) for at, end in zip(due, last, strict=True)], last


SERVERS: dict[str, tuple[Lengths, Callable[[Sequence[float], Sequence[float]], Times]]] = {
    "one length": (one_length, in_slots),
    "long tail": (long_tail, in_slots),
    "shared": (half_to_one_and_a_half, shared),
}


def stretch_of(
    server: str,
    rate: float,
    arrivals: random.Random,
    lengths: random.Random,
    speed: float = 1.0,
    requests: int = FEWEST,
) -> Stretch:
    """A stretch at `rate`, in virtual time, on a server that is `speed` times as fast as CAPACITY."""
    length, serve = SERVERS[server]
    due = poisson_arrivals(rate, max(requests, math.ceil(rate * SECONDS)), arrivals)
    first, last = serve(due, [length(lengths) * AT_A_TIME / CAPACITY / speed for _ in due])
    times = zip(due, first, last, strict=True)
    return Stretch(
        [
            Request(1, number, at, 1, 1, sent_s=at, first_s=began, last_s=ended, output_tokens=1)
            for number, (at, began, ended) in enumerate(times)
        ],
        rate,
    )


def valid(server: str, load: float, number: int) -> tuple[bool, bool]:
    """Whether a stretch at this share of the capacity meets the bound, and whether its backlog grows."""
    chance = random.Random(f"{server} {load} {number}")
    stretch = stretch_of(server, load * CAPACITY, chance, chance)
    first = [request.time_to_first_token for request in stretch.requests]
    latency = [request.latency for request in stretch.requests]
    kept = not BOUNDS.broken(first, [None] * len(first))
    return kept, backlog_growth([request.due_s for request in stretch.requests], latency) > 0


def shares(server: str, load: float, stretches: int) -> tuple[float, float]:
    """The share of stretches that is VALID by the bound alone, and with the backlog test."""
    seen = [valid(server, load, number) for number in range(stretches)]
    alone = sum(kept for kept, _ in seen)
    return alone / stretches, sum(kept and not grows for kept, grows in seen) / stretches


def latencies(stretch: Stretch) -> list[float]:
    """Seconds from when each request was due to its last token."""
    return [request.latency for request in stretch.requests if request.latency is not None]


def grouped(server: str, load: float, stretches: int) -> float:
    """The share found VALID with a bound that exactly 99 % of requests meet: 1 % if they were independent."""
    chance = random.Random(f"long {server} {load}")
    long = stretch_of(server, load * CAPACITY, chance, chance, requests=LONG)
    bound = percentile(latencies(long), BOUNDS.percent)
    kept = 0
    for number in range(stretches):
        chance = random.Random(f"{server} {load} {number}")
        stretch = stretch_of(server, load * CAPACITY, chance, chance)
        late = sum(latency > bound for latency in latencies(stretch))
        kept += proves(len(stretch.requests), late, BOUNDS.percent)
    return kept / stretches


class Simulated:
    """A client of a simulated server, for the search as it is."""

    def __init__(self, server: str, speed: float, seed: str, side: str) -> None:
        self.server, self.speed, self.seed, self.side = server, speed, seed, side
        self.stretches = 0
        self.options = argparse.Namespace(max_failed=0.0)

    async def arrivals(self, rate: float) -> Stretch:
        """The next stretch: arrivals and lengths are the seed's; the server's speed varies by 1 %."""
        self.stretches += 1
        speed = self.speed * random.Random(f"{self.seed} {self.side} {self.stretches}").gauss(1.0, 0.01)
        arrivals, lengths = random.Random(f"{self.seed} arrivals"), random.Random(f"{self.seed} lengths")
        return stretch_of(self.server, rate, arrivals, lengths, speed)


class Silent:
    """A log that nobody reads."""

    def log(self, *_args: object, **_metadata: object) -> None:
        """Keep nothing."""

    def fail(self, message: str) -> None:
        """End the benchmark."""
        raise RuntimeError(message)


def max_rate(server: str, speed: float, seed: str, side: str) -> float:
    """The highest rate that the client's own search finds, to its own resolution."""
    resolution = llm_client.arguments().get_default("resolution")
    begin = llm_client.random_start(4.0, resolution, f"{seed} {side}")
    log: Any = Silent()
    client: Any = Simulated(server, speed, seed, side)
    found = asyncio.run(llm_client.search(log, begin, resolution, client, BOUNDS))
    assert found.rate is not None
    return found.rate


def verdicts(server: str, speed: float, times: int) -> tuple[float, float]:
    """The share of comparisons with five pairs that says equivalent, and that says faster or slower."""
    equivalent = differ = 0
    for number in range(times):
        pairs = [
            (max_rate(server, speed, f"{number} {run}", "a"), max_rate(server, 1.0, f"{number} {run}", "b"))
            for run in range(RUNS)
        ]
        found = ratio([a for a, _ in pairs], [b for _, b in pairs])
        within = found.low >= 1 / (1 + MARGIN) and found.high <= 1 + MARGIN
        equivalent += within
        differ += not within and not found.low <= 1 <= found.high
    return equivalent / times, differ / times


def main() -> None:
    """Print both tables."""
    sizes = parse(
        sized(
            __doc__,
            stretches=(500, 5, "stretches at each load"),
            comparisons=(30, 1, "comparisons of five pairs of searches"),
        )
    )
    print("VALID by the bound alone → with the backlog test, % of stretches")
    print("| load | " + " | ".join(SERVERS) + " |")
    print("|--:|" + "--:|" * len(SERVERS))
    for load in LOADS:
        cells = [shares(server, load, sizes.stretches) for server in SERVERS]
        print(f"| {load:.0%} | " + " | ".join(f"{100 * a:.1f} → {100 * b:.1f}" for a, b in cells) + " |")
    print("\nVALID by a bound on the latency that exactly 99 % meet, % of stretches")
    print("| load | " + " | ".join(SERVERS) + " |")
    print("|--:|" + "--:|" * len(SERVERS))
    for load in LOADS[:3]:
        each = [100 * grouped(server, load, sizes.stretches) for server in SERVERS]
        print(f"| {load:.0%} | " + " | ".join(f"{share:.0f}" for share in each) + " |")
    print(f"\n{RUNS} pairs of searches, margin {MARGIN:.0%}, % of comparisons")
    print("| server | equal: equivalent | equal: faster or slower | 6 % faster: seen |")
    print("|:--|--:|--:|--:|")
    for server in SERVERS:
        same, wrong = verdicts(server, 1.0, sizes.comparisons)
        _, seen = verdicts(server, FASTER, sizes.comparisons)
        print(f"| {server} | {100 * same:.0f} | {100 * wrong:.0f} | {100 * seen:.0f} |")


if __name__ == "__main__":
    main()

"""A server's service level: percentiles of latency, bounds on them, and what this many requests can prove.

A bound holds as in LoadGen (early stopping, MLPerf Inference rules): so few requests are late that, with
99 % confidence, the required share of all requests would be in time. 99 % in time takes 459 requests with
none late, or 662 with one: a percentile of fewer is a figure, but not proof.

This treats requests as independently late. In a queue, late requests come in groups, so a short stretch
may miss a group; the backlog test finds a server that can't keep up before its requests are late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

CONFIDENCE = 0.99
PERCENTILE_RANK = "(n + 1) p"  # which of n values is the percentile p; n p before Assay printed it
BLOCKS = 20  # per stretch; their median latencies show whether the backlog grows
ONE_PERCENT = 2.326  # normal quantile: a steady server exceeds it by chance in 1 % of stretches
LEAST_GROWTH = (
    0.02  # seconds per second; slower growth is indistinguishable from fluctuations of a busy queue
)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of the values that at least `percent` of all future ones don't exceed, on average.

    This is the value of rank (n + 1) p, rounded up; the largest if there are too few values. Rank n p has
    `percent` of these n values below it, which for the 99th percentile of 100 requests is 9 % too low.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50)
    3.0

    Raises ValueError if there are no values.
    """
    if not values:
        raise ValueError("no values")
    rank = math.ceil(round((len(values) + 1) * percent / 100, 9))
    return sorted(values)[min(rank, len(values)) - 1]


def proves(requests: int, late: int, percent: float) -> bool:
    """Whether `late` of `requests` show with 99 % confidence that `percent` of all would be in time.

    One-sided binomial test: if the share in time were exactly `percent`, this few late requests would occur
    in at most 1 % of such runs.

    >>> proves(458, 0, 99), proves(459, 0, 99), proves(661, 1, 99), proves(662, 1, 99)
    (False, True, False, True)
    """
    chance_late = 1 - percent / 100
    term = requests * math.log1p(-chance_late)  # log of the probability of none, then of 1, 2, …
    total = 0.0
    for count in range(late + 1):
        total += math.exp(term)
        if total > 1 - CONFIDENCE or count == requests:
            return False
        term += math.log((requests - count) / (count + 1) * chance_late / (1 - chance_late))
    return True


def fewest(late: int, percent: float) -> int:
    """Requests needed to prove `percent` in time when `late` of them are late.

    The last two are the fewest queries of MLPerf's MultiStream and SingleStream, whose estimates allow one.

    >>> fewest(0, 99), fewest(1, 99), fewest(1, 90)
    (459, 662, 64)
    """
    high = late + 1
    while not proves(high, late, percent):
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if proves(middle, late, percent) else (middle, high)
    return high


def backlog_growth(due_s: Sequence[float], latency_s: Sequence[float | None]) -> float:
    """Seconds of latency that each second of load adds; 0.0 if no growth is shown.

    due_s      when each request was due, in order
    latency_s  seconds from then to its last token; None if it failed

    A server that answers c of r requests per second falls behind by r/c - 1 seconds per second. The answered
    requests are split into 20 blocks of equal size, and the growth is the Theil–Sen slope through the
    blocks' medians: half of all pairs have a smaller slope. It counts if it is above 2 % and the one-sided
    Mann–Kendall test at 1 % says that the medians rise. The test assumes independent blocks; near
    capacity they are not, and benchmarks/backlog.py simulates how often it then errs.

    >>> backlog_growth(range(100), [5 + 0.08 * due for due in range(100)])
    0.08
    """
    answered = [(due, took) for due, took in zip(due_s, latency_s, strict=True) if took is not None]
    blocks = min(BLOCKS, len(answered))
    cuts = [len(answered) * block // blocks for block in range(blocks)] + [len(answered)] if blocks else []
    points = []
    for low, high in pairwise(cuts):
        due, took = zip(*answered[low:high], strict=True)
        points.append((median(due), median(took)))
    pairs = [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in combinations(points, 2)]
    slopes = [rise / apart for apart, rise in pairs if apart > 0]
    rising = sum((rise > 0) - (rise < 0) for _, rise in pairs)
    spread = math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    if not slopes or rising <= ONE_PERCENT * spread:
        return 0.0
    growth = median(slopes)
    return growth if growth > LEAST_GROWTH else 0.0


@dataclass(frozen=True)
class LatencyBounds:
    """Latency bounds in seconds, each None if there is none, and the share of requests that must meet them.

    first_token  time to first token
    per_token    time per output token
    """

    first_token_s: float | None
    per_token_s: float | None
    percent: float

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self.first_token_s is not None or self.per_token_s is not None

    def kept(self, first_token_s: float | None, per_token_s: float | None) -> bool:
        """Whether one request met both; a failed request (None) meets none."""
        return _in_time(first_token_s, self.first_token_s) and _in_time(per_token_s, self.per_token_s)

    def broken(self, first_token_s: Sequence[float | None], per_token_s: Sequence[float | None]) -> list[str]:
        """Why the requests don't prove the bounds, as text; empty if they do."""
        pairs = (
            ("time to first token", first_token_s, self.first_token_s),
            ("time per output token", per_token_s, self.per_token_s),
        )
        reasons = []
        for name, values, bound in pairs:
            late = sum(not _in_time(value, bound) for value in values)
            if bound is None or proves(len(values), late, self.percent):
                continue
            shortfall = f"{name} was above {bound:g} s in {late} of {len(values)} requests"
            many = late > len(values) * (1 - self.percent / 100)
            need = (
                "" if many else f"; {fewest(late, self.percent)} requests with this many late would show it"
            )
            reasons.append(f"{shortfall}, which doesn't show {self.percent:g} % within it{need}")
        return reasons


def _in_time(value: float | None, bound: float | None) -> bool:
    return bound is None or (value is not None and value <= bound)


def highest(holds: Callable[[float], bool], first: float, *, within: float, most_steps: int) -> float | None:
    """The largest rate that was seen to hold, with a rate seen not to hold at most `within` of it above.

    holds       tries a rate; rates below one that holds are assumed to hold, and rates above one that does
                not are assumed not to
    first       starting rate; from there doubled or halved until the limit is between two rates
    within      relative: 0.02 ends at two rates that are 2 % apart
    most_steps  maximum number of rates to try

    None if no tried rate holds. Bisection works on the logarithm: rates differ by factors.

    >>> highest(lambda rate: rate <= 70, 20, within=0.1, most_steps=20)
    67.27171322029716
    """
    low, high, rate = 0.0, math.inf, first
    for _ in range(most_steps):
        if holds(rate):
            low = rate
        else:
            high = rate
        if low and high <= low * (1 + within):
            break
        if not low:
            rate = high / 2
        elif math.isinf(high):
            rate = low * 2
        else:
            rate = math.sqrt(low * high)
    return low or None

"""How much of the time of jobs was useful, what their failures cost, and how often to save a checkpoint.

What fails together has one cause: failures within a minute on a node that they share are one incident. So has
what fails again: an incident soon after a restart that follows another one has the cause of that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from assay.formats.job_attempts import TOGETHER_S, JobAttempt, Outcome

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

FAILURES: Final = ("failed", "interrupted")
CONFIDENCE: Final = 0.95
SUSPECT_LEVEL: Final = 0.05  # probability that any healthy node is named, over all nodes
ROUNDING: Final = 1e-12  # no probability is stated below it
AGAIN_S: Final = 3600.0  # an attempt that follows a failure, and fails sooner, has the cause of that failure


@dataclass(frozen=True)
class FailureRate:
    """Mean time between failures with its 95 % interval, at a constant rate.

    failures   that were seen; incidents: the causes that they had, at most as many
    time_s     that was observed, of jobs or nodes that ran to their end, failed, or still run
    mean_s     None without a failure: `low_s` is then a one-sided bound
    high_s     None without a failure
    """

    failures: int
    incidents: int
    time_s: float
    mean_s: float | None
    low_s: float
    high_s: float | None


def failure_rate(sizes: Sequence[int], time_s: float, confidence: float = CONFIDENCE) -> FailureRate:
    """Mean time between failures when causes of this many failures each were seen in this time.

    The interval is exact for a constant rate of causes of one size: 2T/chi2(1-a/2, 2d+2) to
    2T/chi2(a/2, 2d), in units of that size. Causes of several sizes tell as much as d = (sum of sizes)² /
    (sum of their squares) of one size. It is wide for the right end because observation ends with time, not
    with a failure. Without a failure, the lower bound is the rule of three, exactly: T / -ln(1 - confidence);
    it is that of causes, since nothing shows how often one of them lets a job fail.

    Raises ValueError for a cause without failures, or no time.

    >>> rate = failure_rate([1] * 419, 54 * 86400.0)
    >>> [round(s / 3600, 2) for s in (rate.low_s, rate.mean_s, rate.high_s)]
    [2.81, 3.09, 3.41]
    """
    from scipy.stats import chi2

    if any(size < 1 for size in sizes) or not time_s > 0:
        raise ValueError(f"{list(sizes)[:9]} failures in {time_s} s: expected counts and a time above 0")
    failures, tail = sum(sizes), (1 - confidence) / 2
    if failures == 0:
        return FailureRate(0, 0, time_s, None, time_s / -math.log(1 - confidence), None)
    alike = failures**2 / sum(size**2 for size in sizes)
    apart_s = time_s * alike / failures
    low = 2 * apart_s / float(chi2.ppf(1 - tail, 2 * alike + 2))
    high = 2 * apart_s / float(chi2.ppf(tail, 2 * alike))
    return FailureRate(failures, len(sizes), time_s, time_s / failures, low, high)


def by_size(attempts: Sequence[JobAttempt]) -> list[tuple[int, FailureRate]]:
    """Number of nodes, and time between failures of the jobs on as many while they run; the largest first.

    Jobs of different sizes have no common rate: a mean over them would be wrong for each.
    """
    of_size: dict[int, list[JobAttempt]] = {}
    for attempt in attempts:
        of_size.setdefault(len(attempt.nodes), []).append(attempt)
    rates = []
    for nodes, own in sorted(of_size.items(), reverse=True):
        time_s = math.fsum(attempt.duration_s for attempt in own)
        if time_s > 0:
            sizes = [sum(map(len, incidents)) for incidents in _causes(own)]
            rates.append((nodes, failure_rate(sizes, time_s)))
    return rates


def of_nodes(attempts: Sequence[JobAttempt]) -> FailureRate | None:
    """Node-time between incidents: a node's time counts once, however many jobs share it."""
    time_s = math.fsum(_held_s(attempts).values())
    sizes = [len(incidents) for incidents in _causes([attempt for attempt in attempts if attempt.nodes])]
    return failure_rate(sizes, time_s) if time_s > 0 else None


def _parts(attempt: JobAttempt) -> list[tuple[str, str]]:
    """What may have failed, and may fail again."""
    nodes = [("node", node) for node in attempt.nodes]
    return [*nodes, ("job", attempt.job), *([("program", attempt.program)] if attempt.program else [])]


def _job(attempt: JobAttempt) -> list[tuple[str, str]]:
    return [("job", attempt.job)]


def _causes(
    attempts: Sequence[JobAttempt], parts: Callable[[JobAttempt], list[tuple[str, str]]] = _parts
) -> list[list[list[JobAttempt]]]:
    """Incidents by their cause: one that happens again soon after a restart has the cause of the one before.

    parts  what an attempt shares with the one that it restarts
    """
    before = _failed_before(attempts, parts)
    causes: list[list[list[JobAttempt]]] = []
    cause_of: dict[int, list[list[JobAttempt]]] = {}  # identity of a failed attempt → its cause
    for incident in _incidents(attempts):
        earlier = [
            cause_of[id(failed)]
            for attempt in incident
            if attempt.duration_s < AGAIN_S
            for failed in before[id(attempt)]
            if id(failed) in cause_of
        ]
        if not earlier:
            causes.append([])
        cause = earlier[0] if earlier else causes[-1]
        cause.append(incident)
        cause_of.update((id(attempt), cause) for attempt in incident)
    return causes


def _failed_before(
    attempts: Iterable[JobAttempt], parts: Callable[[JobAttempt], list[tuple[str, str]]]
) -> dict[int, list[JobAttempt]]:
    """Identity of each attempt → those of the attempts that had its parts just before that failed."""
    begins = [(attempt.begin_at, 1, attempt) for attempt in attempts]
    ends = [(attempt.end_at, 0, attempt) for attempt in attempts if attempt.duration_s > 0]
    latest: dict[tuple[str, str], JobAttempt] = {}
    before: dict[int, list[JobAttempt]] = {}
    for _, begins_now, attempt in sorted(begins + ends, key=lambda event: event[:2]):
        own = parts(attempt)
        if begins_now:
            last = [latest[part] for part in own if part in latest]
            before[id(attempt)] = [previous for previous in last if previous.outcome in FAILURES]
        else:
            latest.update(dict.fromkeys(own, attempt))
    return before


def _incidents(attempts: Iterable[JobAttempt]) -> list[list[JobAttempt]]:
    """Failed attempts by their cause: those that end within a minute, and share a node, have one."""
    incidents: list[list[JobAttempt]] = []
    latest: dict[str, list[JobAttempt]] = {}  # node → its last incident
    for attempt in sorted(
        (attempt for attempt in attempts if attempt.outcome in FAILURES), key=attrgetter("end_at")
    ):
        shared = [
            incident
            for node in attempt.nodes
            if (incident := latest.get(node)) and attempt.end_at - incident[0].end_at <= TOGETHER_S
        ]
        if shared:
            shared[0].append(attempt)
        else:
            incidents.append([attempt])
        latest.update(dict.fromkeys(attempt.nodes, shared[0] if shared else incidents[-1]))
    return incidents


def _held_s(attempts: Iterable[JobAttempt]) -> dict[str, float]:
    """Node → the time in which at least one of these attempts held it."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for attempt in attempts:
        for node in attempt.nodes:
            spans.setdefault(node, []).append((attempt.begin_at, attempt.end_at))
    return {node: _covered_s(own) for node, own in spans.items()}


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """The length of the union of spans."""
    covered, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


@dataclass(frozen=True)
class NodeFailures:
    """A node's share of the failures.

    failures   incidents with this node: named by the source, or the job had only this node
    time_s     in which jobs held the node
    p          probability of at least as many if all nodes fail at the same rate, corrected for the number
               of nodes (Holm)
    suspect    whether p is below 5 %
    """

    node: str
    failures: int
    time_s: float
    p: float
    suspect: bool


def by_node(attempts: Sequence[JobAttempt]) -> list[NodeFailures]:
    """Each node's failures, compared with what its share of the time explains; the worst first.

    Only like is compared with like, because programs fail at different rates, wherever they run:

    - interruptions of jobs on one node are compared over all nodes that run such jobs;
    - those of larger jobs over all of their nodes, if the source names the one that failed;
    - failures of a program over the nodes on which that program ran, so one that ran on one node says
      nothing about it; several in a row on a node count once, since a program that can't start fails again.
    """
    cause_of = {
        id(attempt): number
        for number, incidents in enumerate(_causes(attempts, _job))
        for incident in incidents
        for attempt in incident
    }
    held_s = _held_s(attempts)
    seen = dict.fromkeys(held_s, 0)
    expected: dict[str, list[tuple[int, float]]] = {node: [] for node in held_s}
    for alike, failed in _comparable(attempts):
        own_s, counts = _held_s(alike), _blamed(failed, cause_of)
        total, whole_s = sum(counts.values()), math.fsum(own_s.values())
        if total == 0 or whole_s == 0:
            continue
        for node, time_s in own_s.items():
            seen[node] += counts.get(node, 0)
            expected[node].append((total, time_s / whole_s))
    chances = {node: _at_least(count, expected[node]) for node, count in seen.items()}
    corrected = _holm(chances)
    nodes = [
        NodeFailures(node, seen[node], time_s, corrected[node], corrected[node] < SUSPECT_LEVEL)
        for node, time_s in held_s.items()
    ]
    return sorted(
        nodes, key=lambda node_failures: (node_failures.p, -node_failures.failures, node_failures.node)
    )


def _comparable(attempts: Sequence[JobAttempt]) -> Iterator[tuple[list[JobAttempt], list[JobAttempt]]]:
    """Attempts among which all nodes fail at the same rate, and those of them that failed by that rate."""
    alone = [attempt for attempt in attempts if len(attempt.nodes) == 1]
    shared = [attempt for attempt in attempts if len(attempt.nodes) > 1]
    yield alone, [attempt for attempt in alone if _of_platform(attempt)]
    if any(attempt.blamed for attempt in shared):
        yield shared, [attempt for attempt in shared if _of_platform(attempt)]
    programs: dict[str, list[JobAttempt]] = {}
    for attempt in alone:
        programs.setdefault(attempt.program or attempt.job, []).append(attempt)
    for own in programs.values():
        yield own, _first_in_a_row(own)


def _of_platform(attempt: JobAttempt) -> bool:
    return attempt.outcome == "interrupted" or (attempt.outcome == "failed" and bool(attempt.blamed))


def _first_in_a_row(attempts: Iterable[JobAttempt]) -> list[JobAttempt]:
    """A program's own failures, without those that directly follow another one on the same node."""
    last: dict[tuple[str, ...], Outcome] = {}
    first = []
    for attempt in sorted(attempts, key=attrgetter("begin_at")):
        failed = attempt.outcome == "failed" and not attempt.blamed
        if failed and last.get(attempt.nodes) != "failed":
            first.append(attempt)
        last[attempt.nodes] = attempt.outcome
    return first


def _blamed(failed: Iterable[JobAttempt], cause_of: Mapping[int, int]) -> dict[str, int]:
    """Node → the causes of failures for which it is named, or whose job had no other node."""
    causes: dict[str, set[int]] = {}
    for attempt in failed:
        node = attempt.blamed or (attempt.nodes[0] if len(attempt.nodes) == 1 else "")
        if node in attempt.nodes:
            causes.setdefault(node, set()).add(cause_of[id(attempt)])
    return {node: len(own) for node, own in causes.items()}


def _at_least(count: int, expected: Iterable[tuple[int, float]]) -> float:
    """Probability that binomial counts of these totals and shares add up to at least this many."""
    import numpy as np
    from scipy.stats import binom

    if count == 0:
        return 1.0
    below: NDArray[floating] = np.array([1.0])  # probability of each sum below `count`
    for total, share in expected:
        below = np.convolve(below, binom.pmf(np.arange(min(count, total + 1)), total, share))[:count]
    return max(ROUNDING, 1.0 - float(below.sum()))


def _holm(chances: Mapping[str, float]) -> dict[str, float]:
    """P values corrected so that any healthy node is named with at most the level's probability."""
    corrected, worst = {}, 0.0
    for rank, (node, p) in enumerate(sorted(chances.items(), key=lambda chance: chance[1])):
        worst = max(worst, min(1.0, p * (len(chances) - rank)))
        corrected[node] = worst
    return corrected


PARTS: Final = ("productive", "checkpoint", "restart", "lost", "stall")


@dataclass(frozen=True)
class GoodputShare:
    """Useful time over wall time of jobs, weighted by their nodes.

    parts_s     seconds by part; `unknown`: what no source accounts for
    low, high   goodput if none of the unknown time was useful, and if all was
    """

    wall_s: float
    parts_s: dict[str, float]
    low: float
    high: float


def goodput(attempts: Sequence[JobAttempt]) -> GoodputShare | None:
    """The goodput of these attempts; None if none ran for any time.

    Raises ValueError if the parts of an attempt are longer than the attempt.
    """
    weights = [max(1, len(attempt.nodes)) for attempt in attempts]
    wall_s = math.fsum(a.duration_s * weight for a, weight in zip(attempts, weights, strict=True))
    if wall_s <= 0:
        return None
    parts = {
        part: math.fsum((getattr(a, f"{part}_s") or 0.0) * w for a, w in zip(attempts, weights, strict=True))
        for part in PARTS
    }
    for attempt in attempts:
        known = math.fsum(getattr(attempt, f"{part}_s") or 0.0 for part in PARTS)
        if known > attempt.duration_s * (1 + 1e-9) + 1e-6:
            raise ValueError(
                f"{attempt.job}: its parts take {known:g} s together, but it ran for {attempt.duration_s:g} s"
            )
    unknown = max(0.0, wall_s - math.fsum(parts.values()))
    parts["unknown"] = unknown
    return GoodputShare(wall_s, parts, parts["productive"] / wall_s, (parts["productive"] + unknown) / wall_s)


@dataclass(frozen=True)
class CheckpointInterval:
    """Time of work between checkpoints that loses least, and the share of the time that is then lost.

    low_s, high_s   the interval for the ends of the rate's interval; high_s None without a failure
    waste           share of the time for checkpoints and repeated work at Daly's interval and the mean rate;
                    None without one
    waste_low, waste_high  the same at the ends
    """

    cost_s: float
    young_s: float | None
    daly_s: float | None
    low_s: float
    high_s: float | None
    waste: float | None
    waste_low: float | None
    waste_high: float


def young_s(cost_s: float, mean_s: float) -> float:
    """Young's first-order interval, seconds: sqrt(2 δ M).

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
    """
    return math.sqrt(2 * cost_s * mean_s)


def daly_s(cost_s: float, mean_s: float) -> float:
    """Daly's higher-order interval of work, seconds; M if a checkpoint takes 2 M or more.

    Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.

    >>> round(daly_s(60, 3.09 * 3600) / 60)
    19
    """
    if cost_s >= 2 * mean_s:
        return mean_s
    root = math.sqrt(cost_s / (2 * mean_s))
    return young_s(cost_s, mean_s) * (1 + root / 3 + root * root / 9) - cost_s


def waste(cost_s: float, mean_s: float) -> float:
    """Share of the time for checkpoints and repeated work at Daly's interval: 1 - τ / (M (e^((τ+δ)/M) - 1)).

    Exact for failures at a constant rate: each interval succeeds with probability e^(-(τ+δ)/M). Young's
    sqrt(2 δ / M) is its first order, and too high where a checkpoint costs much: 75 instead of 57 % for
    checkpoints of 33 min and a failure every 2 h. Restarts are not in it.

    >>> round(waste(2000, 7200), 3), round(waste(60, 10800), 3)
    (0.573, 0.102)
    """
    work_s = daly_s(cost_s, mean_s)
    return 1 - work_s / (mean_s * math.expm1((work_s + cost_s) / mean_s))


def checkpoint_interval(rate: FailureRate, cost_s: float) -> CheckpointInterval:
    """The best interval for a rate of failures. Raises ValueError unless a checkpoint costs time."""
    if not cost_s > 0:
        raise ValueError(f"a checkpoint that costs {cost_s} s: expected a time above 0")
    mean, high = rate.mean_s, rate.high_s
    return CheckpointInterval(
        cost_s,
        None if mean is None else young_s(cost_s, mean),
        None if mean is None else daly_s(cost_s, mean),
        daly_s(cost_s, rate.low_s),
        None if high is None else daly_s(cost_s, high),
        None if mean is None else waste(cost_s, mean),
        None if high is None else waste(cost_s, high),
        waste(cost_s, rate.low_s),
    )

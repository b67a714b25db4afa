"""How fast a stack is, and how much faster than another, from what sessions observed of both.

Sessions are the unit of replication. A session's conditions shift all of its figures, so two stacks are
compared within the sessions that measured both, and each of these sessions counts once, with the mean of its
log-ratios. With one such session, its runs are the unit and the claim is about that session. Stacks that were
never measured in one session are compared by their sessions' means, if both have several; with fewer there is
no interval, because the gap between two sessions may be any size next to the spread within them.
Which of these it is depends on how the stacks were measured, never on the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.analyse import doubts
from assay.analyse.comparison.compare import decide, surely_beyond
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import LogInterval, ratio_end
from assay.records import Comparison, Doubt, Estimate, Observation, Point
from assay.units import convert

Pair = tuple[Observation, Observation]
"""Of one session: A's and B's values of the same metric, on the same hardware, of the same workload."""

NEVER_TOGETHER = (
    "they were measured in different sessions, and one of them in one session only: how much a session "
    "shifts its figures is unknown"
)


@dataclass(frozen=True)
class Level:
    """Mean of a stack's values with its interval; over sessions if there are several, else over its runs."""

    estimate: Estimate
    sessions: int
    runs: int


def level(observed: Sequence[Observation]) -> Level:
    """How fast a stack is: of observations of one metric, at least one. Raises ValueError without a unit."""
    metric = observed[0].metric
    if metric is None:
        raise ValueError("a failure has no level")
    runs = sum(len(one.values) for one in observed)
    if min(value for one in observed for _, value in one.values) <= 0:
        mean = math.fsum(value for one in observed for _, value in one.values) / runs
        return Level(Estimate(mean, None, None, runs, metric.unit), len(_by_session(observed)), runs)
    means = session_means(observed)
    if len(means) > 1:
        return Level(intervals.one_mean(means).estimate(metric.unit), len(means), runs)
    logs = [log for one in observed for log in _logs(one, metric.unit)]
    confidence = max(one.confidence for one in observed)
    return Level(intervals.one_mean(logs, confidence).estimate(metric.unit, confidence), 1, runs)


def session_means(observed: Sequence[Observation], unit: str = "") -> list[float]:
    """Mean logarithm of each session's values, each session with the same weight, sorted by name."""
    return [
        math.fsum(logs) / len(logs)
        for _, of in sorted(_by_session(observed).items())
        if (logs := [log for one in of for log in _logs(one, unit)])
    ]


def within_sessions(pairs: Sequence[Pair], names: tuple[str, str], margin: float) -> Comparison:
    """B compared with A from sessions that measured both: at least one pair.

    Several pairs of a session are the same change in several surroundings, and count together once.
    """
    by_session: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_session.setdefault(_session(pair[0]), []).append(pair)
    if len(by_session) > 1:
        means = [_pair_means(of) for _, of in sorted(by_session.items())]
        return _comparison(pairs, names, margin, intervals.paired(means), "paired", "sessions")
    a, b = max(pairs, key=lambda pair: len(pair[0].values) + len(pair[1].values))
    confidence = max(a.confidence, b.confidence)
    blocks = _blocks(a, b)
    if blocks is not None:
        interval, method = intervals.paired(blocks, confidence), "paired"
    else:
        unit = _unit(a)
        interval, method = intervals.welch(_logs(a, unit), _logs(b, unit), confidence), "welch"
    return _comparison([(a, b)], names, margin, interval, method, "runs", confidence)


def between_sessions(
    a: Sequence[Observation], b: Sequence[Observation], names: tuple[str, str], margin: float
) -> Comparison:
    """B compared with A from sessions that measured only one of them: an interval needs several of each."""
    unit = _unit(a[0])
    means_a, means_b = session_means(a, unit), session_means(b, unit)
    if min(len(means_a), len(means_b)) > 1:
        interval = intervals.welch(means_a, means_b)
    else:
        centre = math.fsum(means_b) / len(means_b) - math.fsum(means_a) / len(means_a)
        interval = LogInterval(centre, None, len(means_a) + len(means_b), NEVER_TOGETHER)
    method = "" if interval.half is None else "welch"
    return _comparison([(a[0], b[0])], names, margin, interval, method, "sessions", sides=(a, b))


def compare_stacks(
    a: Sequence[Observation], b: Sequence[Observation], names: tuple[str, str], margin: float
) -> Comparison | None:
    """B compared with A, by the sessions that measured both if there are any that decide.

    a, b  the observations of one metric of each stack, on the same hardware, of the same workload

    None if a value is not above 0: then there is no ratio.
    """
    if not a or not b or min(value for one in (*a, *b) for _, value in one.values) <= 0:
        return None
    at_a = {_session(one): one for one in a}
    pairs = [(at_a[_session(one)], one) for one in b if _session(one) in at_a]
    several = min(len(at_a), len(_by_session(b))) > 1
    if len(pairs) > 1 or (pairs and not several):
        return within_sessions(pairs, names, margin)
    return between_sessions(a, b, names, margin)


def _comparison(
    pairs: Sequence[Pair],
    names: tuple[str, str],
    margin: float,
    interval: LogInterval,
    method: str,
    replication: Literal["runs", "sessions"],
    confidence: float = 0.95,
    sides: tuple[Sequence[Observation], Sequence[Observation]] | None = None,
) -> Comparison:
    a, b = sides or (tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))
    metric, workload = a[0].metric, a[0].workload
    if metric is None or workload is None:
        raise ValueError("a failure can't be compared")
    estimate = interval.estimate("", confidence)
    lost = _lost(a), _lost(b)
    verdict, reason = decide(estimate, margin, metric.better, lost, names)
    above = None if interval.half is None else ratio_end(interval.half)
    return Comparison(
        point=Point(
            workload.workload, workload.shape, metric.name, metric.unit, metric.better, metric.labels
        ),
        a=names[0],
        b=names[1],
        mean_a=_mean(a, metric.unit),
        mean_b=_mean(b, metric.unit),
        ratio=estimate,
        n=(_runs(a), _runs(b)),
        method="" if interval.half is None else method,
        margin=margin,
        verdict=verdict,
        reason=f"{interval.why}: no interval" if interval.why else reason,
        smallest_visible=None if above is None else above - 1,
        doubts=_doubts(a, b, method, replication),
        replication=replication,
        sessions=(len(_by_session(a)), len(_by_session(b))),
        error=interval.error,
        degrees=interval.degrees,
        by_margin=surely_beyond(estimate, margin, metric.better, lost),
        lost_to_others=lost,
    )


def _doubts(
    a: Sequence[Observation], b: Sequence[Observation], method: str, replication: str
) -> tuple[Doubt, ...]:
    """Those of the observations, each once, and what the design leaves open."""
    found = {(doubt.code, doubt.evidence): doubt for one in (*a, *b) for doubt in one.doubts}
    if replication == "runs":
        evidence = f"all runs are of session {_session(a[0]).partition(' ')[2]}"
        found["one-session", evidence] = doubts.KINDS["one-session"].doubt(evidence)
    if method != "paired":
        evidence = "the stacks did not run in the same shuffled blocks"
        found["not-interleaved", evidence] = doubts.KINDS["not-interleaved"].doubt(evidence)
    return tuple(sorted(found.values(), key=lambda doubt: doubts.rank(doubt.code)))


def _blocks(a: Observation, b: Observation) -> list[tuple[float, float]] | None:
    """Logarithms of A and B in each block that has both; None if they did not run in the same blocks."""
    if not (a.interleaved and b.interleaved):
        return None
    unit = _unit(a)
    of_a, of_b = (dict(zip((at for at, _ in one.values), _logs(one, unit), strict=True)) for one in (a, b))
    both = sorted(of_a.keys() & of_b.keys())
    if len(of_a) < len(a.values) or len(of_b) < len(b.values) or not both:
        return None
    return [(of_a[block], of_b[block]) for block in both]


def _pair_means(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Mean logarithms of A and B over one session's pairs; of the blocks that have both, if it has blocks."""
    means = []
    for a, b in pairs:
        unit = _unit(a)
        blocks = _blocks(a, b)
        of_a = [log for log, _ in blocks] if blocks else _logs(a, unit)
        of_b = [log for _, log in blocks] if blocks else _logs(b, unit)
        means.append((math.fsum(of_a) / len(of_a), math.fsum(of_b) / len(of_b)))
    return math.fsum(x for x, _ in means) / len(means), math.fsum(y for _, y in means) / len(means)


def _by_session(observed: Sequence[Observation]) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for one in observed:
        found.setdefault(_session(one), []).append(one)
    return found


def _session(one: Observation) -> str:
    """Sessions of two parties may have the same name."""
    return f"{one.origin} {one.session}"


def _unit(one: Observation) -> str:
    return "" if one.metric is None else one.metric.unit


def _logs(one: Observation, unit: str) -> list[float]:
    own = _unit(one)
    values = [value if unit in ("", own) else convert(value, own, unit) for _, value in one.values]
    return [math.log(value) for value in values]


def _mean(observed: Sequence[Observation], unit: str) -> float:
    means = session_means(observed, unit)
    return math.exp(math.fsum(means) / len(means))


def _lost(observed: Sequence[Observation]) -> float:
    """The mean share that the runs may have lost to others."""
    return math.fsum(one.lost_to_others * len(one.values) for one in observed) / _runs(observed)


def _runs(observed: Sequence[Observation]) -> int:
    return sum(len(one.values) for one in observed)

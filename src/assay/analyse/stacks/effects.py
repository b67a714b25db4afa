"""How fast a stack is, and how much faster than another, from what sessions observed of both.

Sessions are the unit of replication. A session's conditions shift all of its figures, so two stacks are
compared within the sessions that measured both, and each of these sessions counts once, with the mean of its
log-ratios. With one such session, its runs are the unit and the claim is about that session. Stacks that were
never measured in one session are compared by their sessions' means, if both have several; with fewer there is
no interval, because the gap between two sessions may be any size next to the spread within them.
Which of these it is depends on how the stacks were measured, never on the figures. For stacks that are linked
by what others share with them, see `linked.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.analyse import doubts
from assay.analyse.comparison.verdict import decide, more_would_decide, runs_still_needed, surely_beyond
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import Hidden, LogInterval, ratio_end
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.records import Comparison, Doubt, Estimate, Observation, Point
from assay.units import convert

Pair = tuple[Observation, Observation]
"""Of one session: A's and B's values of the same metric, on the same hardware, of the same workload."""

Sides = tuple[Sequence[Observation], Sequence[Observation]]
"""The observations of A and of B."""

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
    runs = sum(len(observation.values) for observation in observed)
    if min(value for observation in observed for _, value in observation.values) <= 0:
        mean = math.fsum(value for observation in observed for _, value in observation.values) / runs
        return Level(Estimate(mean, None, None, runs, metric.unit), len(_by_session(observed)), runs)
    values = [math.exp(log) for observation in observed for log in _logs(observation, metric.unit)]
    means, rounding = session_means(observed), hidden_by_rounding(values)
    if len(means) > 1:
        interval = intervals.one_mean(means, hidden=rounding)
        return Level(interval.estimate(metric.unit), len(means), runs)
    confidence = max(observation.confidence for observation in observed)
    interval = intervals.one_mean([math.log(value) for value in values], confidence, rounding)
    return Level(interval.estimate(metric.unit, confidence), 1, runs)


def session_means(observed: Sequence[Observation], unit: str = "") -> list[float]:
    """Mean logarithm of each session's values, each session with the same weight, sorted by name."""
    return [
        math.fsum(logs) / len(logs)
        for _, session_observations in sorted(_by_session(observed).items())
        if (logs := [log for observation in session_observations for log in _logs(observation, unit)])
    ]


def within_sessions(pairs: Sequence[Pair], names: tuple[str, str], margin: float) -> Comparison:
    """B compared with A from sessions that measured both: at least one pair.

    Several pairs of a session are the same change in several surroundings, and count together once.
    """
    by_session: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_session.setdefault(session_name(pair[0]), []).append(pair)
    if len(by_session) > 1:
        means = [_pair_means(session_pairs) for _, session_pairs in sorted(by_session.items())]
        sides = _sides(pairs)
        interval = intervals.paired(means, hidden=_hidden(*sides))
        return comparison_of(sides, names, margin, interval, "paired", "sessions")
    a, b = max(pairs, key=lambda pair: len(pair[0].values) + len(pair[1].values))
    confidence = max(a.confidence, b.confidence)
    blocks = _blocks(a, b)
    if blocks is not None:
        return comparison_of(
            ((a,), (b,)),
            names,
            margin,
            intervals.paired(blocks, confidence, _hidden((a,), (b,))),
            "paired",
            "runs",
            confidence,
        )
    unit = _unit(a)
    interval = intervals.welch(_logs(a, unit), _logs(b, unit), confidence, _hidden((a,), (b,)))
    return comparison_of(((a,), (b,)), names, margin, interval, "welch", "runs", confidence)


def _hidden(a: Sequence[Observation], b: Sequence[Observation]) -> Hidden:
    """What rounding hides of both; a session's mean is taken to be as coarse as one of its values."""
    unit = _unit(a[0])
    return hidden_by_rounding(
        *([math.exp(log) for observation in side for log in _logs(observation, unit)] for side in (a, b))
    )


def between_sessions(
    a: Sequence[Observation], b: Sequence[Observation], names: tuple[str, str], margin: float
) -> Comparison:
    """B compared with A from sessions that measured only one of them: an interval needs several of each."""
    unit = _unit(a[0])
    means_a, means_b = session_means(a, unit), session_means(b, unit)
    if min(len(means_a), len(means_b)) > 1:
        interval = intervals.welch(means_a, means_b, hidden=_hidden(a, b))
    else:
        centre = math.fsum(means_b) / len(means_b) - math.fsum(means_a) / len(means_a)
        interval = LogInterval(centre, None, len(means_a) + len(means_b), NEVER_TOGETHER)
    return comparison_of((a, b), names, margin, interval, "welch", "sessions")


def _sides(pairs: Sequence[Pair]) -> Sides:
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def comparison_of(
    sides: Sides,
    names: tuple[str, str],
    margin: float,
    interval: LogInterval,
    method: Literal["paired", "welch", "linked"],
    replication: Literal["runs", "sessions"],
    confidence: float = 0.95,
    lost: tuple[float, float] | None = None,
) -> Comparison:
    """The verdict on B from the interval of its log-ratio to A.

    lost  shares of their time that the sides may have lost to others; None: what their observations say
    """
    a, b = sides
    metric, workload = a[0].metric, a[0].workload
    if metric is None or workload is None:
        raise ValueError("a failure can't be compared")
    estimate = interval.estimate("", confidence)
    lost = lost or (lost_by(a), lost_by(b))
    verdict, reason = decide(estimate, margin, metric.better, lost, names)
    above = None if interval.half is None else ratio_end(interval.half)
    comparison = Comparison(
        point=Point(
            workload.workload, workload.shape, metric.name, metric.unit, metric.better, metric.labels
        ),
        a=names[0],
        b=names[1],
        mean_a=_mean(a, metric.unit),
        mean_b=_mean(a, metric.unit) * estimate.value if method == "linked" else _mean(b, metric.unit),
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
    if interval.error is None or not more_would_decide(verdict, estimate, lost):
        return comparison
    return replace(comparison, runs_needed=runs_still_needed(comparison, confidence))


def _doubts(
    a: Sequence[Observation], b: Sequence[Observation], method: str, replication: str
) -> tuple[Doubt, ...]:
    """Those of the observations, each once, and what the design leaves open."""
    raised = {(doubt.code, doubt.evidence): doubt for observation in (*a, *b) for doubt in observation.doubts}
    if replication == "runs":
        sessions = sorted({observation.session for observation in (*a, *b)})
        named = f"session{'s' * (len(sessions) > 1)} {', '.join(sessions)}"
        evidence = f"all runs are of {named}"
        raised["one-session", evidence] = doubts.KINDS["one-session"].doubt(evidence)
    apart = not all(observation.interleaved for observation in (*a, *b))
    if method == "welch" or (method == "linked" and apart):
        evidence = "the stacks did not run in the same shuffled blocks"
        raised["not-interleaved", evidence] = doubts.KINDS["not-interleaved"].doubt(evidence)
    return tuple(sorted(raised.values(), key=lambda doubt: doubts.rank(doubt.code)))


def rivals(sessions: Iterable[frozenset[str]], a: str, b: str) -> int:
    """How many stacks could have been compared with A instead of B, B included: at least 1.

    sessions  that the comparison rests on, as the stacks that each measured

    Whoever asks for B may do so because it looked best of all that a session measured, as after an
    exploration. So a verdict from these runs has to allow for as many comparisons.
    """
    return max((len(stacks | {a, b}) - 1 for stacks in sessions), default=1)


def positive(observed: Iterable[Observation]) -> bool:
    """Whether all values are above 0, so that ratios exist."""
    return all(value > 0 for observation in observed for _, value in observation.values)


def logs_by_block(observation: Observation, unit: str) -> list[tuple[int, float]]:
    """Block and logarithm of each value, in this unit."""
    return list(zip((block for block, _ in observation.values), _logs(observation, unit), strict=True))


def _blocks(a: Observation, b: Observation) -> list[tuple[float, float]] | None:
    """Logarithms of A and B in each block that has both; None if they did not run in the same blocks."""
    if not (a.interleaved and b.interleaved):
        return None
    unit = _unit(a)
    of_a, of_b = (
        dict(zip((block for block, _ in side.values), _logs(side, unit), strict=True)) for side in (a, b)
    )
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
    by_session: dict[str, list[Observation]] = {}
    for observation in observed:
        by_session.setdefault(session_name(observation), []).append(observation)
    return by_session


def session_name(observation: Observation) -> str:
    """Sessions of two parties may have the same name."""
    return f"{observation.origin} {observation.session}"


def _unit(observation: Observation) -> str:
    return "" if observation.metric is None else observation.metric.unit


def _logs(observation: Observation, unit: str) -> list[float]:
    own = _unit(observation)
    values = [value if unit in ("", own) else convert(value, own, unit) for _, value in observation.values]
    return [math.log(value) for value in values]


def _mean(observed: Sequence[Observation], unit: str) -> float:
    means = session_means(observed, unit)
    return math.exp(math.fsum(means) / len(means))


def lost_by(observed: Sequence[Observation]) -> float:
    """The mean share that the runs may have lost to others."""
    return math.fsum(
        observation.lost_to_others * len(observation.values) for observation in observed
    ) / _runs(observed)


def _runs(observed: Sequence[Observation]) -> int:
    return sum(len(observation.values) for observation in observed)

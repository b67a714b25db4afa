"""What counts once, a run, a pair of runs or a session, and in which order the runs ran, with their drifts.

It is determined by how the runs were made, never by their results.

Runs of one session share its conditions: the same allocation, temperature and day. Their spread may be 0.05 %
while the next session differs by 0.5 %. So as soon as a side has several sessions, each session counts once,
with the mean of its runs (of its blocks' log-ratios if the sides are paired), and the claim is about the
systems. If only one side has several, the other's session is taken to differ as theirs do. If both sides
were measured in the same sessions, each session is a pair, and the effect of the day on both cancels. With
one session per side, only its runs count, and the claim is about these sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from statistics import fmean, linear_regression

from assay.analyse.points.groups import Sample
from assay.analyse.statistics import trouble
from assay.analyse.statistics.rounding import unrounded
from assay.records import Run

Session = tuple[str, str]


def session_of(sample: Sample) -> Session:
    """Suite and session of a run."""
    return sample.result.run.suite, sample.result.run.session


def sessions(samples: Iterable[Sample]) -> tuple[Session, ...]:
    """The sessions that runs come from, in the order of their first occurrence."""
    return tuple(dict.fromkeys(map(session_of, samples)))


def replicated(a: int, b: int) -> bool:
    """Whether sessions are the unit of replication: a side has several."""
    return max(a, b) > 1


def shared(a: Sequence[Sample], b: Sequence[Sample]) -> bool:
    """Whether both sides were measured in exactly the same sessions: then each session is a pair."""
    return set(sessions(a)) == set(sessions(b))


def session_means(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Mean logarithm of each session, sorted by name; each has the same weight, however many runs it has.

    For sides with the same sessions the means are pairs; for blocks, the differences of the means are the
    means of the blocks' log-ratios.
    """
    return [
        math.fsum(session_logs) / len(session_logs)
        for _, session_logs in sorted(_by_session(samples, logs).items())
    ]


def deviations(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Each logarithm minus the mean of its session."""
    return [
        log - math.fsum(session_logs) / len(session_logs)
        for session_logs in _by_session(samples, logs).values()
        for log in session_logs
    ]


def excess(
    a: Sequence[Sample], b: Sequence[Sample], logs_a: Sequence[float], logs_b: Sequence[float]
) -> float:
    """By how much a side's only session varies more than the other side's, because it has fewer runs."""
    counts = [(len(sessions(side)), len(side)) for side in (a, b)]
    (_, alone), (others, runs) = sorted(counts)
    off = [*deviations(a, logs_a), *deviations(b, logs_b)]
    within = math.fsum(x * x for x in off) / max(len(off) - 1 - others, 1)
    return within * max(1 / alone - others / runs, 0.0)


def _by_session(samples: Sequence[Sample], logs: Sequence[float]) -> dict[Session, list[float]]:
    gathered: dict[Session, list[float]] = {}
    for sample, log in zip(samples, logs, strict=True):
        gathered.setdefault(session_of(sample), []).append(log)
    return gathered


@dataclass(frozen=True)
class Pairing:
    """Runs of A and B from the same shuffled blocks.

    pairs    a run of each side per block, in the order of sessions and blocks
    dropped  blocks that lack one side
    """

    pairs: tuple[tuple[Sample, Sample], ...]
    dropped: int


def pairing(a: Sequence[Sample], b: Sequence[Sample]) -> Pairing | None:
    """The pairs, if both sides ran in the same shuffled blocks of the same sessions; else None.

    Two systems did if their plan interleaved them. Two sizes or points of one system always did: every
    plan shuffles them within each block. Repeat numbers of imported logs are not blocks. There are also
    no pairs if a run is outside its block: leaving that block out would mean selecting by failures.
    """
    runs = [sample.result.run for sample in (*a, *b)]
    one_system = len({run.trial.system for run in runs}) == 1
    if not all(run.interleaved or (one_system and run.source is None) for run in runs):
        return None
    if len({run.suite_digest for run in runs}) != 1 or any(run.outside_block for run in runs):
        return None
    by_block_a, by_block_b = _by_block(a), _by_block(b)
    if {session for session, _ in by_block_a} != {session for session, _ in by_block_b}:
        return None
    if len(by_block_a) < len(a) or len(by_block_b) < len(b):  # two runs of a side in a block: not a design
        return None
    both = sorted(by_block_a.keys() & by_block_b.keys())
    dropped = len(a) + len(b) - 2 * len(both)
    return Pairing(tuple((by_block_a[block], by_block_b[block]) for block in both), dropped)


def _by_block(samples: Sequence[Sample]) -> dict[tuple[str, int], Sample]:
    return {block_of(sample): sample for sample in samples}


def block_of(sample: Sample) -> tuple[str, int]:
    """The session of a run, and its block there."""
    run = sample.result.run
    return run.session, run.trial.block


FALSE_ALARM = 0.05  # of drift, dependence, two modes and an outlier together
LEVEL = FALSE_ALARM / 4  # for each of the four
FEWEST_FOR_WORTH = 5  # runs of a side; with fewer, their correlation is next to unknown
LEAST_DEGREES = 2  # of freedom that a correlation leaves to a side


@dataclass(frozen=True)
class Succession:
    """What the tests examine: logarithms session by session, each in the order in which its runs ran.

    name      of the side, or of both if they are pairs
    runs      the name of each value: its block, or its run's id
    sessions  number of runs in each session
    ordered   whether the order in which they ran is known
    unrounded `logs` of values without the step that they were printed in: the reference for a single one
    lengths   logarithms of the passes or samples that each training took to its target; empty if unknown.
              They move in steps of the evaluations, and the time to train moves with them
    """

    name: str
    logs: tuple[float, ...]
    runs: tuple[str, ...]
    sessions: tuple[int, ...]
    ordered: bool
    unrounded: tuple[float, ...]
    lengths: tuple[float, ...] = ()

    @property
    def by_session(self) -> tuple[tuple[float, ...], ...]:
        """The logarithms of each session."""
        return self._by_session(self.logs)

    @property
    def unrounded_by_session(self) -> tuple[tuple[float, ...], ...]:
        """The logarithms of each session, without the step."""
        return self._by_session(self.unrounded)

    @property
    def lengths_by_session(self) -> tuple[tuple[float, ...], ...]:
        """The lengths of each session's runs."""
        return self._by_session(self.lengths)

    def _by_session(self, values: tuple[float, ...]) -> tuple[tuple[float, ...], ...]:
        ends = list(accumulate(self.sessions))
        return tuple(values[end - n : end] for end, n in zip(ends, self.sessions, strict=True))


def of_pairs(name: str, a: Sequence[Sample], b: Sequence[Sample]) -> Succession:
    """Log-ratios B/A, block by block."""
    pairs = sorted(zip(a, b, strict=True), key=lambda pair: _when(pair[0]))
    return Succession(
        name,
        tuple(_log_ratio(of_b.value, of_a.value) for of_a, of_b in pairs),
        tuple(f"block {of_a.result.run.trial.block}" for of_a, _ in pairs),
        _sessions([of_a for of_a, _ in pairs]),
        _ordered([of_a.result.run for of_a, _ in pairs]),
        tuple(
            _log_ratio(of_b, of_a)
            for of_a, of_b in zip(
                unrounded([of_a.value for of_a, _ in pairs]),
                unrounded([of_b.value for _, of_b in pairs], falling=True),
                strict=True,
            )
        ),
        _ratios(_lengths([of_b for _, of_b in pairs]), _lengths([of_a for of_a, _ in pairs])),
    )


def _log_ratio(b: float, a: float) -> float:
    """Of values whose ratio may be no number: 1e308 and 5e-324."""
    return math.log(b) - math.log(a)


def of_side(name: str, samples: Sequence[Sample]) -> Succession:
    """The logarithms of one side's runs."""
    runs = sorted(samples, key=_when)
    return Succession(
        name,
        tuple(math.log(sample.value) for sample in runs),
        tuple(sample.result.run.trial.id for sample in runs),
        _sessions(runs),
        _ordered([sample.result.run for sample in runs]),
        tuple(map(math.log, unrounded([sample.value for sample in runs]))),
        _lengths(runs),
    )


def drifts(successions: Sequence[Succession]) -> list[tuple[Succession, float, float, int]]:
    """Each that drifts: the change from a session's first run to its last, its probability, and the runs.

    The change is that of a line through the logarithms, in the session in which it is the most unlikely.
    Independent runs drift by chance at rate `LEVEL`, over all successions.
    """
    drifting = []
    for succession in successions:
        rows = succession.by_session if succession.ordered else ()
        seen = [(*drift, len(row)) for row in rows if (drift := trouble.drift(row)) is not None]
        if seen:
            change, probability, runs = min(seen, key=lambda session_drift: session_drift[1])
            if probability * len(seen) <= LEVEL / len(successions):
                drifting.append((succession, change, min(1.0, probability * len(seen)), runs))
    return drifting


def shift_in_one_order(a: Sequence[Sample], b: Sequence[Sample]) -> float | None:
    """By how much drift moves log B − log A of sides that ran in turn in one session; None if they did not.

    Each side's line is followed from the middle of the common order to the mean place of its runs, so a drift
    of both cancels if they are balanced, as in the order ABBA.
    """
    samples = [*a, *b]
    ordered = sorted(samples, key=_when)
    if len({session_of(s) for s in samples}) > 1 or not _ordered([s.result.run for s in samples]):
        return None
    place = {id(sample): float(index) for index, sample in enumerate(ordered)}
    of_a, of_b = ([place[id(sample)] for sample in side] for side in (a, b))
    if max(of_a) < min(of_b) or max(of_b) < min(of_a):
        return None
    middle = (len(ordered) - 1) / 2
    moved = [
        linear_regression(places, [math.log(sample.value) for sample in side]).slope
        * (fmean(places) - middle)
        for places, side in ((of_a, a), (of_b, b))
    ]
    return abs(moved[1] - moved[0])


def worth(sides: Sequence[Succession]) -> float:
    """The share of the runs that count as independent, by the correlation of each with the next one.

    (1 − r) / (1 + r) for the correlation r over both sides, corrected for its bias in few runs; 1 if the
    order is unknown. Sources: Bartlett, JRSS 8 (1946) 27-41; Kendall, Biometrika 41 (1954) 403-404.
    """
    rows = [row for side in sides for row in side.by_session]
    runs = [len(side.logs) for side in sides]
    if not all(side.ordered for side in sides) or min(runs) < FEWEST_FOR_WORTH:
        return 1.0
    centred = [[x - math.fsum(row) / len(row) for x in row] for row in rows]
    squares = math.fsum(x * x for row in centred for x in row)
    if squares == 0:
        return 1.0
    r = math.fsum(x * y for row in centred for x, y in pairwise(row)) / squares
    r = min(max(r + (1 + 3 * r) * len(rows) / sum(runs), 0.0), 0.95)
    return max((1 - r) / (1 + r), LEAST_DEGREES / (min(runs) - 1))


def _when(sample: Sample) -> tuple[Session, float, int]:
    run = sample.result.run
    return session_of(sample), run.started_at or run.created_at, run.trial.block


def _sessions(samples: Sequence[Sample]) -> tuple[int, ...]:
    """The number of samples in each session; the samples are in the order of their sessions."""
    return tuple(len(list(same)) for _, same in groupby(samples, key=session_of))


def _ordered(runs: Sequence[Run]) -> bool:
    """Always true for runs that Assay made; for imported runs, if each states a time.

    The order of files or rows is no order in time.
    """
    if all(run.source is None for run in runs):
        return True
    return None not in (times := {run.started_at for run in runs}) and len(times) == len(runs)


def _lengths(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Logarithms of how far each training went; empty if one of them does not state it."""
    lengths = []
    for sample in samples:
        training = sample.result.reading.training
        length = None if training is None else training.samples or training.epochs
        if not length:
            return ()
        lengths.append(math.log(length))
    return tuple(lengths)


def _ratios(of_b: Sequence[float], of_a: Sequence[float]) -> tuple[float, ...]:
    if not of_a or not of_b:
        return ()
    return tuple(b - a for a, b in zip(of_a, of_b, strict=True))

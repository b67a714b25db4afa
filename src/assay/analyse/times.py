"""Where the time of a trial goes apart from its run: the queue, the image, the start, collecting output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from assay.records import Result, Run


@dataclass(frozen=True)
class Times:
    """Times of one run, or means of several, seconds; None if a platform does not report one or has none.

    queue    until a place was found for it; for several nodes, the longest
    pull     while its image was pulled
    start    the rest of the time before its ranks ran, including the submission
    run      from the first rank's start to the last one's end
    collect  until all its output was stored

    The ranks' own times use their node's clock, the others that of the machine that runs Assay.
    """

    queue: float | None
    pull: float | None
    start: float
    run: float
    collect: float | None

    @property
    def whole(self) -> float:
        """The total."""
        return math.fsum(filter(None, (self.queue, self.pull, self.start, self.run, self.collect)))


Waits = tuple[float | None, float | None]
"""Seconds in the queue and for the image, the longest over the nodes."""


def times(result: Result) -> Times | None:
    """The run's times; None for an imported run, or one that another Assay process took over."""
    return _times(result.run, _waits(result))


def _times(run: Run, waits: Waits) -> Times | None:
    if run.source is not None or run.adopted or run.started_at is None or run.ended_at is None:
        return None
    queue, pull = waits
    before = run.started_at - run.created_at - (queue or 0.0) - (pull or 0.0)
    collect = None if run.collected_at is None else max(0.0, run.collected_at - run.ended_at)
    return Times(queue, pull, max(0.0, before), run.ended_at - run.started_at, collect)


def mean_times(results: Iterable[Result]) -> tuple[Times, int] | None:
    """Means, each over the runs that have it, and the number of runs; None if no run has times."""
    results = tuple(results)
    one_of_each = {id(result.provenance): result for result in results}  # many have the same provenance
    waits = {key: _waits(result) for key, result in one_of_each.items()}
    known = [
        times for result in results if (times := _times(result.run, waits[id(result.provenance)])) is not None
    ]
    if not known:
        return None
    start, run = (
        math.fsum(values) / len(known) for values in ([t.start for t in known], [t.run for t in known])
    )
    queue, pull, collect = (
        _mean(values)
        for values in ([t.queue for t in known], [t.pull for t in known], [t.collect for t in known])
    )
    return Times(queue, pull, start, run, collect), len(known)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _waits(result: Result) -> Waits:
    return _longest(result, ".queue_s"), _longest(result, ".pull_s")


def _longest(result: Result, ending: str) -> float | None:
    """The largest value over the nodes of the launcher's fact with this ending."""
    tables = () if result.provenance is None else result.provenance.nodes
    values = [value for table in tables for name, value in table.items() if name.endswith(ending)]
    return max((float(value) for value in values if isinstance(value, int | float)), default=None)

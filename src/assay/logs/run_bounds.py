"""Whether a log holds one run, all of whose work is between run_start and run_stop, by its lines' times.

The ranks of a run may each print run_start and run_stop, close to each other. In 10,125 published logs of
v0.5 to v5.1, no epoch, block, or evaluation begins before run_start. Evaluations end up to a second after
run_stop, blocks up to 13, except in the benchmarks of `EVALUATED_BESIDE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Final

from assay.logs.intervals import CLOCK_TOLERANCE_MS
from assay.logs.mllog import Event

RANKS_APART_MS: Final = 60_000.0  # at most, between the first and the last rank's line
# Their evaluations run next to the training or after it, and finish after run_stop.
EVALUATED_BESIDE: Final = frozenset({"minigo", "stable_diffusion", "bert"})
_WORK_BEGINS: Final = frozenset({"epoch_start", "block_start", "eval_start", "eval_accuracy"})
_WORK_ENDS: Final = frozenset({"epoch_stop", "block_stop"})
# What follows run_start only once every rank has started.
_ALL_STARTED: Final = frozenset({"init_start", "eval_accuracy"}) | _WORK_ENDS


@dataclass
class RunBounds:
    """Where a run begins and ends, and what is outside.

    several  why the log holds more than one run; "" if it holds one
    """

    several: str = ""
    _start: Event | None = None
    _stop: Event | None = None
    _all_started: Event | None = None
    _first_work: Event | None = None
    _last_work: Event | None = None

    def add(self, event: Event) -> None:
        """Process the next event."""
        key = event.key
        if key == "run_start":
            self._add_start(event)
        elif key == "run_stop":
            self._compare(self._stop, event)
            self._stop = _later(self._stop, event)
        if key in _WORK_BEGINS and event.time_ms is not None:
            self._first_work = _earlier(self._first_work, event)
        if key in _WORK_ENDS and event.time_ms is not None:
            self._last_work = _later(self._last_work, event)
        start = self._start
        if key in _ALL_STARTED and start and _ms_between(start, event) > CLOCK_TOLERANCE_MS:
            self._all_started = self._all_started or event

    def _add_start(self, event: Event) -> None:
        self._compare(self._start, event)
        started = self._all_started
        if not self.several and started and _ms_between(started, event) > 0:
            self.several = f"run_start again at line {event.line}, after {started.key} (line {started.line})"
        self._start = _earlier(self._start, event)

    def _compare(self, first: Event | None, again: Event) -> None:
        if first is None or self.several:
            return
        apart_ms = abs(_ms_between(first, again))
        if apart_ms > RANKS_APART_MS:
            minutes = f"{apart_ms / 60_000:.2f} minutes"
            self.several = f"{again.key} again at line {again.line}, {minutes} apart from line {first.line}"

    def before_start(self) -> str:
        """What the log dates before run_start; "" if nothing is."""
        work, start = self._first_work, self._start
        if work is None or start is None or not _ms_between(work, start) > CLOCK_TOLERANCE_MS:
            return ""
        return f"{work.key} (line {work.line}) is {_ms_between(work, start) / 1000:.1f} s before run_start"

    def after_stop(self, benchmark: str | None) -> str:
        """Which epoch or block the log dates after run_stop; "" if none is."""
        work, stop = self._last_work, self._stop
        if work is None or stop is None or benchmark in EVALUATED_BESIDE:
            return ""
        if not _ms_between(stop, work) > RANKS_APART_MS:
            return ""
        return f"{work.key} (line {work.line}) is {_ms_between(stop, work) / 1000:.1f} s after run_stop"

    def is_after_stop(self, time_ms: float | None, benchmark: str | None) -> bool:
        """Whether an evaluation at this time can't have ended the run."""
        if time_ms is None or self._stop is None or benchmark in EVALUATED_BESIDE:
            return False
        return time_ms - _time_ms(self._stop) > CLOCK_TOLERANCE_MS


def _ms_between(first: Event, second: Event) -> float:
    """From the first to the second; NaN, for which no comparison holds, if one of them has no time."""
    return _time_ms(second) - _time_ms(first)


def _time_ms(event: Event) -> float:
    return nan if event.time_ms is None else event.time_ms


def _earlier(known: Event | None, event: Event) -> Event:
    return event if known is None or _ms_between(event, known) > 0 else known


def _later(known: Event | None, event: Event) -> Event:
    return event if known is None or _ms_between(known, event) > 0 else known

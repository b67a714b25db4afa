"""The steps that a growing log states: the newest figures, how long steps took, and when they were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from assay.logs.mllog import Event, is_number

FIGURES: Final = ("throughput", "step_time", "loss", "accuracy", "eval_accuracy", "step", "epoch")
KEPT: Final = 4096  # steps: looks at ranks need the newest 256, pauses are rare
RESTARTED: Final = 16  # steps back, from which on a job has begun again from an earlier state


@dataclass
class Steps:
    """What one log has stated so far.

    figures  the newest of each name
    seconds  step → seconds that it took
    taken    step → time of day when it was first mentioned, seconds since 1970
    newest   step; None before the first
    """

    figures: dict[str, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    taken: dict[int, float] = field(default_factory=dict)
    newest: int | None = None

    def take(self, step: int, taken_at: float | None, seconds: float | None = None) -> None:
        """Add a step: when it was taken, None if unknown, and how long it took."""
        if self.newest is not None and step < self.newest - RESTARTED:
            self.seconds.clear()
            self.taken.clear()
            self.newest = None
        self.newest = step if self.newest is None else max(step, self.newest)
        if taken_at is not None:
            self.taken.setdefault(step, taken_at)
        if seconds is not None:
            self.seconds[step] = seconds
        for known in (self.seconds, self.taken):
            if len(known) > 2 * KEPT:
                for old in sorted(known)[:-KEPT]:
                    del known[old]

    def take_event(self, event: Event) -> None:
        """Add what an event of an MLPerf log states; a step takes as long as since the one before it."""
        stated = event.value if event.key == "tracked_stats" else {event.key: event.value}
        known: Mapping[str, object] = (
            {**event.metadata, **stated} if isinstance(stated, dict) else event.metadata
        )
        self.figures |= {name: float(value) for name in FIGURES if is_number(value := known.get(name))}
        step, own = known.get("step"), known.get("step_time")
        if not is_number(step) or event.time_ms is None:
            return
        number, when = int(step), event.time_ms / 1e3
        self.take(number, when, float(own) if is_number(own) else None)
        if number - 1 in self.taken and number not in self.seconds:
            self.seconds[number] = when - self.taken[number - 1]

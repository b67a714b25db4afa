"""A session's progress, how long the rest will take, and the last figure that the running job printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.logs.mllog import Event, EventScanner
from assay.records import Output, Plan, Result, Run, Trial
from assay.units import human

_LONGEST_LINE = 1 << 16
_LONGEST_TEXT = 60


@dataclass(frozen=True)
class TrialKind:
    """Trials that take about the same time."""

    benchmark: str
    shape: str
    system: str

    @classmethod
    def of(cls, trial: Trial) -> TrialKind:
        """The kind of this trial; its swept parameters count as random variation."""
        return cls(trial.benchmark, str(trial.shape), trial.system)


class Pace:
    """Durations of what is done, and an estimate from them of what is left."""

    def __init__(self, plan: Plan, done: Sequence[Run]) -> None:
        self._left = {trial.id: trial for trial in plan.trials}
        self._took: dict[TrialKind, list[float]] = {}
        self.total = len(plan.trials)
        for run in done:
            self.settled(run)

    @property
    def done(self) -> int:
        """Trials that are settled."""
        return self.total - len(self._left)

    def ran(self, run: Run) -> None:
        """Learn from an attempt; an adopted attempt shows only when its job started and ended."""
        if run.ended_at is not None and run.started_at is not None and run.ended_at > run.started_at:
            self._took.setdefault(TrialKind.of(run.trial), []).append(run.ended_at - run.started_at)

    def settled(self, run: Run) -> None:
        """One trial less to do."""
        self.ran(run)
        self._left.pop(run.trial.id, None)

    def left_s(self, running_s: float, *, through: int | None = None) -> float | None:
        """Seconds that the rest will take, minus the time of the running trial; None while unknown.

        through  only the rest of this many blocks

        Each trial is assumed to take the mean of its kind; a kind not seen yet, the mean of all.
        """
        every = [seconds for of_kind in self._took.values() for seconds in of_kind]
        if not every:
            return None
        mean = math.fsum(every) / len(every)
        total = 0.0
        for trial in self._left.values():
            if through is not None and trial.block > through:
                continue
            seen = self._took.get(TrialKind.of(trial))
            total += math.fsum(seen) / len(seen) if seen else mean
        return max(total - running_s, 0.0)


class LastFigure:
    """The last progress that rank 0 printed: the metric, otherwise its tracked figures; "" before any."""

    def __init__(self, metric: str, unit: str) -> None:
        self._metric, self._unit = metric, unit
        self._rest, self._events = b"", EventScanner()
        self.text = ""

    def feed(self, output: Output) -> None:
        """Process new bytes; unknown lines are the reader's concern, not the display's."""
        if output.stream != "rank-0":
            return
        lines, _, rest = (self._rest + output.data).rpartition(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        for event in self._events.scan(lines):
            self._look(event)

    def _look(self, event: Event) -> None:
        key, value = event.key, event.value
        try:
            if key == self._metric:
                self.text = human(float(value), str(event.metadata.get("unit", self._unit)))
            elif key == "tracked_stats" and self._metric in value:
                self.text = human(float(value[self._metric]), self._unit)
            elif key == "tracked_stats":
                figures = [f"{name} {float(figure):.4g}" for name, figure in value.items()]
                self.text = "".join(c for c in ", ".join(figures) if c.isprintable())[:_LONGEST_TEXT]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return


def figure_of(result: Result, metric: str) -> str:
    """The run's value of a metric, for people; "" if it has none.

    If a metric was printed with several labels, the last one: usually the largest size.
    """
    found = [m for m in result.reading.measurements if m.metric == metric]
    if not found:
        return ""
    last = found[-1]
    values = [m.value for m in found if m.labels == last.labels and m.unit == last.unit]
    if min(values) > 0:
        value = math.exp(math.fsum(map(math.log, values)) / len(values))
    else:
        value = math.fsum(values) / len(values)
    labels = " ".join(f"{name}={label}" for name, label in last.labels.items())
    return f"{human(value, last.unit)}{' at ' + labels if labels else ''}"

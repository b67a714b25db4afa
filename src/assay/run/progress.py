"""The receiver of a session's progress, and what a job last printed: lines, a cause, a figure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Protocol

from assay import redact
from assay.formats.mllog import TOKEN, Event, EventScanner
from assay.inputs import reading
from assay.records import Output, Plan, RankExit, Result, Run, Trial
from assay.rundir.session import Attempt, Session
from assay.units import human


class Progress(Protocol):
    """The events of a session, in order.

    Concurrent trials call it one at a time. It should return soon: the session waits for it.
    """

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """A trial is run; `adopted`: it resumes the job of an interrupted Assay."""
        ...

    def printed(self, output: Output) -> None:
        """The running job printed something."""
        ...

    def waited(self, why: str) -> None:
        """It printed nothing for a moment; why: what it waits for, "" if it runs or this is unknown."""
        ...

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """An attempt has ended; `settled`: this call does not attempt the trial again."""
        ...

    def noted(self, message: str) -> None:
        """Something about the session as a whole: a look at what is decided."""
        ...

    def close(self) -> None:
        """There are no further events."""
        ...


Tell = Callable[[Session, Plan, Sequence[Run]], Progress]
"""Makes the receiver, once the session is chosen; the runs are those settled before."""


class Silence:
    """Reports nothing."""

    def __init__(self, session: Session, plan: Plan, done: Sequence[Run]) -> None:
        """The session doesn't matter here."""

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """Nothing."""

    def printed(self, output: Output) -> None:
        """Nothing."""

    def waited(self, why: str) -> None:
        """Nothing."""

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """Nothing."""

    def noted(self, message: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


_LINES = 10
_BYTES = 1 << 16
_WIDEST = 200  # characters per line
_OWN = re.compile(
    r"\w+\.py: rank \d+: (?P<why>.+)"
)  # the form that `Rank.fail` in assay_payloads/measuring/rank.py writes
_LONGEST_LINE = 1 << 16
_LONGEST_TEXT = 60


def last_lines(attempt: Attempt, exits: Sequence[RankExit]) -> list[str]:
    """The end of the log of the rank that failed first, otherwise of rank 0: at most ten lines, printable,
    without secrets.

    Lines with figures are left out, since they don't show what went wrong; if there is nothing else, the last
    one shows how far the job came. If all ranks finished, there are no last lines: the result is the problem.
    """
    rank = next((e.rank for e in exits if e.first), 0)
    path = attempt.logs().get(f"rank-{rank}.log")
    if path is None:
        return []
    with reading(path) as file:
        file.seek(max(path.stat().st_size - _BYTES, 0))
        text = file.read().decode(errors="replace")
    lines = [line for line in redact.text(text).splitlines() if line.strip()][-_LINES:]
    came_to_its_end = bool(exits) and all(e.exit_code == 0 for e in exits)
    lines = [line for line in lines if TOKEN.decode() not in line] or ([] if came_to_its_end else lines[-1:])
    return ["".join(c if c.isprintable() else "·" for c in line.expandtabs())[:_WIDEST] for line in lines]


def last_line(attempt: Attempt, exits: Sequence[RankExit]) -> str:
    """The last one; "" if there is none."""
    return "".join(last_lines(attempt, exits)[-1:])


def own_cause(line: str) -> str:
    """Why one of Assay's programs gave up, from its last line; "" for other programs."""
    match = _OWN.fullmatch(line)
    return "" if match is None else match["why"]


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
    measurements = [m for m in result.reading.measurements if m.metric == metric]
    if not measurements:
        return ""
    last = measurements[-1]
    values = [m.value for m in measurements if m.labels == last.labels and m.unit == last.unit]
    if min(values) > 0:
        value = math.exp(math.fsum(map(math.log, values)) / len(values))
    else:
        value = math.fsum(values) / len(values)
    labels = " ".join(f"{name}={label}" for name, label in last.labels.items())
    return f"{human(value, last.unit)}{' at ' + labels if labels else ''}"

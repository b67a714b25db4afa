"""The last figure that a running job printed, and that of a run."""

from __future__ import annotations

import math

from assay.logs.mllog import Event, EventScanner
from assay.records import Output, Result
from assay.units import human

_LONGEST_LINE = 1 << 16
_LONGEST_TEXT = 60


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

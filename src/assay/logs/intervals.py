"""The intervals that a training log marks: epochs, blocks, and evaluations, paired in line order.

Lines need not be in time order: evaluations that ran next to the training are printed when they finish, with
the times at which they happened. Pairing follows the lines; coverage follows the times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from assay.logs.mllog import Event, is_number

CLOCK_TOLERANCE_MS: Final = 1000.0  # clocks of several ranks differ
Kind = Literal["epoch", "block", "eval"]
Label = float | None
_EDGES: Final[dict[str, tuple[Kind, bool]]] = {
    f"{kind}_{edge}": (kind, edge == "start")
    for kind in ("epoch", "block", "eval")
    for edge in ("start", "stop")
}
TIMELINE_KEYS: Final = frozenset(_EDGES) | {"eval_accuracy", "train_loop"}
_LABELS: Final = ("epoch_num", "samples_count", "first_epoch_num", "step_num")


class Span(NamedTuple):
    """An interval, in milliseconds since the epoch, with the labels of its first and last line."""

    begin: float
    end: float
    label: Label = None
    stop_label: Label = None


@dataclass
class Timeline:
    """What was marked so far.

    points      `eval_accuracy` and `train_loop` events
    impossible  an interval that ends before it begins by more than clocks differ; "" if there is none
    """

    points: list[Event] = field(default_factory=list)
    impossible: str = ""
    _pairs: dict[Kind, _Pairs] = field(
        default_factory=lambda: {kind: _Pairs() for kind, _ in _EDGES.values()}
    )

    @classmethod
    def of(cls, events: Iterable[Event]) -> Timeline:
        """The timeline of events with a key of TIMELINE_KEYS, in the order of the log."""
        timeline = cls()
        for event in events:
            timeline.add(event)
        return timeline

    def add(self, event: Event) -> None:
        """Process the next event."""
        if event.key not in _EDGES:
            self.points.append(event)
            return
        if event.time_ms is None:
            return
        kind, starts = _EDGES[event.key]
        pairs, label = self._pairs[kind], label_of(event)
        if starts:
            pairs.start(event.time_ms, label)
            return
        closed = pairs.stop(event.time_ms, label)
        if closed is not None and closed.begin - closed.end > CLOCK_TOLERANCE_MS and not self.impossible:
            before_s = (closed.begin - closed.end) / 1000
            self.impossible = f"{event.key} (line {event.line}) is {before_s:.1f} s before its {kind}_start"

    def spans(self, kind: Kind, window: Span, last_ms: float) -> list[Span]:
        """Intervals of one kind within the window; one without an end lasts until `last_ms`."""
        pairs = self._pairs[kind]
        every = [*pairs.closed, *(span._replace(end=last_ms) for span in pairs.open)]
        return [
            Span(max(begin, window.begin), min(end, window.end), label, stop_label)
            for begin, end, label, stop_label in every
            if min(end, window.end) > max(begin, window.begin)
        ]


@dataclass
class _Pairs:
    """Intervals of one kind; another rank's repeat of a line does not open or close one again."""

    open: list[Span] = field(default_factory=list)
    closed: list[Span] = field(default_factory=list)

    def start(self, time_ms: float, label: Label) -> None:
        if all(span.label != label for span in self.open):
            self.open.append(Span(time_ms, time_ms, label))

    def stop(self, time_ms: float, label: Label) -> Span | None:
        """Close the interval with that label, otherwise the oldest; returns it."""
        own = next((span for span in self.open if span.label == label), None)
        if self._repeats(label, own):  # the last one lasted longer on this rank
            self.closed[-1] = self.closed[-1]._replace(end=max(time_ms, self.closed[-1].end))
            return None
        if not self.open:
            return None
        known = own or self.open[0]
        self.open.remove(known)
        self.closed.append(Span(known.begin, time_ms, known.label, label))
        return self.closed[-1]

    def _repeats(self, label: Label, own: Span | None) -> bool:
        """Whether an end was seen before. A block labeled by samples begins with the last one's end."""
        if label is None or not self.closed or self.closed[-1].stop_label != label:
            return False
        return own is None or self.closed[-1].label != label


def label_of(event: Event) -> Label:
    """The epoch, or the samples, that a line is about."""
    metadata = event.metadata
    for name in _LABELS:
        if name in metadata and is_number(stated := metadata[name]):
            return float(stated)
    value = event.value
    if isinstance(value, dict):  # v0.5
        value = value.get("epoch")
    return float(value) if is_number(value) else None

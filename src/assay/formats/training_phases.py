"""Where the time between run_start and run_stop went: start, training, evaluation, rest.

Epochs, blocks, and evaluations are intervals that may overlap: some programs evaluate while the next epoch
runs, some log one epoch around everything. A sweep over all their ends assigns every moment to exactly one
phase, whatever the order of the lines, so that the phases add up to run_stop − run_start:

1. training: an epoch is open, and also a block if the log has blocks, since either may enclose evaluations
2. evaluation: an evaluation is open. Training takes precedence, unless the evaluation belongs to the epoch
   that was open when it began: then the epoch waits for it. If the log states its own throughput, that
   decides instead: how long its samples took shows whether the training paused
3. start: nothing has been trained yet
4. rest: everything else

Epochs, blocks, and evaluations are marked by two lines each, which are paired in line order.
Lines need not be in time order: evaluations that ran next to the training are printed when they finish, with
the times at which they happened. Pairing follows the lines; coverage follows the times.

The intervals show whether a log holds one run, all of whose work is between run_start and run_stop. The ranks
of a run may each print run_start and run_stop, close to each other. In 10,125 published logs of v0.5 to v5.1,
no epoch, block, or evaluation begins before run_start. Evaluations end up to a second after run_stop, blocks
up to 13, except in the benchmarks of `EVALUATED_BESIDE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import nan
from typing import Final, Literal, NamedTuple

from assay.formats.mllog import Event, is_number
from assay.formats.training_length import TrainingLength
from assay.records import TrainingPhases

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


MS_PER_MINUTE: Final = 60_000


def training_phases(
    timeline: Timeline,
    began_ms: float,
    ended_ms: float,
    length: TrainingLength,
    *,
    trained_ms: float | None = None,
) -> TrainingPhases:
    """The phases of a run that lasted from `began_ms` to `ended_ms`, in minutes.

    timeline    what the log marks; repeats by further ranks are harmless
    length      epochs and samples that were trained, converged or not
    trained_ms  how long training them took, by the log's own throughput, if it states one
    """
    window = Span(began_ms, ended_ms)
    evaluations = timeline.spans("eval", window, window.end)
    # the last evaluation's start: training that started later is not for the target
    target = max((e.begin for e in evaluations), default=window.end)
    epochs, blocks = timeline.spans("epoch", window, target), timeline.spans("block", window, target)
    notes: list[str] = []
    if not epochs and not blocks:
        epochs = [_unmarked(timeline.points, evaluations, window)]
        paused = evaluations
        notes.append(
            "no epochs or blocks are marked: everything up to the last evaluation that is not evaluation is "
            "training"
        )
    else:
        paused = _waited_for(epochs or blocks, evaluations)
    spent = _spent(_Marks(epochs, blocks, evaluations, paused), window, trained_ms)
    if spent.beside_ms and (epochs or blocks):
        notes.append("evaluation ran concurrently with training: counted once, as training")
    return TrainingPhases(
        start_minutes=spent.start_ms / MS_PER_MINUTE,
        training_minutes=spent.training_ms / MS_PER_MINUTE,
        evaluation_minutes=spent.evaluation_ms / MS_PER_MINUTE,
        rest_minutes=spent.rest_ms / MS_PER_MINUTE,
        overlap_minutes=(spent.beside_ms + spent.paused_ms) / MS_PER_MINUTE,
        evaluations=len(evaluations) or _evaluated_points(timeline.points),
        epochs=length.epochs,
        samples=length.samples,
        notes=tuple(notes),
        after_minutes=spent.after_ms / MS_PER_MINUTE,
    )


@dataclass(frozen=True)
class _Marks:
    """What the log marks; `paused` are evaluations that an open epoch waits for."""

    epochs: Sequence[Span]
    blocks: Sequence[Span]
    evaluations: Sequence[Span]
    paused: Sequence[Span]


@dataclass
class _PhaseTimes:
    """Milliseconds by phase.

    beside, paused  evaluation in an open epoch, counted as training or as evaluation
    after           rest after the last evaluation
    """

    start_ms: float = 0.0
    training_ms: float = 0.0
    evaluation_ms: float = 0.0
    rest_ms: float = 0.0
    beside_ms: float = 0.0
    paused_ms: float = 0.0
    after_ms: float = 0.0


def _spent(marks: _Marks, window: Span, trained_ms: float | None) -> _PhaseTimes:
    """The phases by labels; by the log's own throughput if it shows better what training waited for."""
    by_labels = _sweep(marks, window)
    if trained_ms is None or not (by_labels.beside_ms or by_labels.paused_ms):
        return by_labels
    others = (_sweep(replace(marks, paused=paused), window) for paused in (marks.evaluations, ()))
    return min((by_labels, *others), key=lambda spent: abs(spent.training_ms - trained_ms))


def _sweep(marks: _Marks, window: Span) -> _PhaseTimes:
    """Every moment of the window assigned to one phase."""
    spent = _PhaseTimes()
    kinds = (marks.epochs, marks.blocks, marks.evaluations, marks.paused)
    edges = [(window.begin, -1, 0), (window.end, -1, 0)]
    for kind, spans in enumerate(kinds):
        edges += [edge for span in spans for edge in ((span.begin, kind, 1), (span.end, kind, -1))]
    last_evaluated = max((e.end for e in marks.evaluations), default=window.end)
    open_now = [0] * len(kinds)
    trained = False
    for (since, kind, step), (until, _, _) in pairwise(sorted(edges)):
        if kind >= 0:
            open_now[kind] += step
        epoch, block, evaluation, paused = (count > 0 for count in open_now)
        training = (epoch or not marks.epochs) and (block or not marks.blocks) and not paused
        trained = trained or (training and until > since)
        took = until - since
        if training:
            spent.training_ms += took
            spent.beside_ms += took if evaluation else 0.0
        elif evaluation:
            spent.evaluation_ms += took
            spent.paused_ms += took if (epoch if marks.epochs else block) else 0.0
        elif not trained:
            spent.start_ms += took
        else:
            spent.rest_ms += took
            spent.after_ms += took if since >= last_evaluated else 0.0
    return spent


def _waited_for(epochs: Sequence[Span], evaluations: Sequence[Span]) -> list[Span]:
    """Evaluations inside an epoch that stayed open throughout."""
    by_label: dict[Label, list[Span]] = {}
    for epoch in epochs:
        by_label.setdefault(epoch.label, []).append(epoch)
    return [
        e
        for e in evaluations
        if e.label is not None
        and any(epoch.begin < e.begin and e.end <= epoch.end for epoch in by_label.get(e.label, ()))
    ]


def _unmarked(events: Iterable[Event], evaluations: Sequence[Span], window: Span) -> Span:
    """From v0.5's train_loop, otherwise run_start, to the last evaluation, otherwise run_stop."""
    begin, end = window.begin, max((e.end for e in evaluations), default=None)
    for event in events:
        time_ms = event.time_ms
        if time_ms is None or not window.begin <= time_ms <= window.end:
            continue
        if event.key == "train_loop":
            begin = time_ms
        elif event.key == "eval_accuracy" and not evaluations:
            end = time_ms
    return Span(begin, max(begin, window.end if end is None else end))


def _evaluated_points(events: Iterable[Event]) -> int:
    """Evaluations in a log that does not mark their starts and ends."""
    places = [label_of(event) for event in events if event.key == "eval_accuracy"]
    return len(set(places)) if None not in places else len(places)

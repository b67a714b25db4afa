"""Where the time between run_start and run_stop went: start, training, evaluation, rest.

Epochs, blocks and evaluations are intervals that may overlap: some programs evaluate while the next epoch
runs, some log one epoch around everything. A sweep over all their ends gives every moment to exactly one
phase, so that the phases add up to run_stop − run_start:

1. training: an epoch is open, and a block where the log has blocks, since either may enclose evaluations
2. evaluation: an evaluation is open. Training comes before it, except where the evaluation is of the very
   epoch that was open when it began: then the epoch waits for it
3. start: nothing was trained yet
4. rest: what is left
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from assay.logs.mllog import Event
from assay.logs.training_length import TrainingLength, is_number
from assay.records import TrainingPhases

MS_PER_MINUTE: Final = 60_000
_INTERVALS: Final = ("epoch", "block", "eval")
PHASE_KEYS: Final = frozenset(f"{what}_{edge}" for what in _INTERVALS for edge in ("start", "stop")) | {
    "eval_accuracy",
    "train_loop",
}
_LABELS: Final = ("epoch_num", "samples_count", "first_epoch_num", "step_num")
Label = float | None


def training_phases(
    events: Sequence[Event], began_ms: float, ended_ms: float, length: TrainingLength
) -> TrainingPhases:
    """The phases of a run that lasted from `began_ms` to `ended_ms`, in minutes.

    events  those with a key of PHASE_KEYS, in the order of the log; repeats by further ranks do no harm
    length  epochs and samples that were trained, converged or not
    """
    window = _Span(began_ms, ended_ms)
    evaluations = _spans(events, "eval", window, window.end)
    target = max((e.begin for e in evaluations), default=window.end)
    epochs, blocks = (_spans(events, what, window, target) for what in ("epoch", "block"))
    notes: list[str] = []
    if not epochs and not blocks:
        epochs = [_unmarked(events, evaluations, window)]
        paused = evaluations
        notes.append("no epochs or blocks are marked: what is no evaluation, to the last one, is training")
    else:
        paused = [e for e in evaluations if any(_waits(span, e) for span in epochs or blocks)]
    spent = _sweep(_Marks(epochs, blocks, evaluations, paused), window)
    if spent.beside_ms and (epochs or blocks):
        notes.append("evaluation ran beside training: counted once, as training")
    return TrainingPhases(
        start_minutes=spent.start_ms / MS_PER_MINUTE,
        training_minutes=spent.training_ms / MS_PER_MINUTE,
        evaluation_minutes=spent.evaluation_ms / MS_PER_MINUTE,
        rest_minutes=spent.rest_ms / MS_PER_MINUTE,
        overlap_minutes=(spent.beside_ms + spent.paused_ms) / MS_PER_MINUTE,
        evaluations=len(evaluations) or _evaluated_points(events),
        epochs=length.epochs,
        samples=length.samples,
        notes=tuple(notes),
        after_minutes=spent.after_ms / MS_PER_MINUTE,
    )


@dataclass(frozen=True)
class _Span:
    """An interval, in milliseconds since the epoch, with what its first and last line call it."""

    begin: float
    end: float
    label: Label = None
    stop_label: Label = None


@dataclass(frozen=True)
class _Marks:
    """What the log marks; `paused` are evaluations that an open epoch waits for."""

    epochs: Sequence[_Span]
    blocks: Sequence[_Span]
    evaluations: Sequence[_Span]
    paused: Sequence[_Span]


@dataclass
class _Spent:
    """Milliseconds by phase.

    beside, paused  evaluation in an open epoch, counted as training or as evaluation
    after           rest behind the last evaluation
    """

    start_ms: float = 0.0
    training_ms: float = 0.0
    evaluation_ms: float = 0.0
    rest_ms: float = 0.0
    beside_ms: float = 0.0
    paused_ms: float = 0.0
    after_ms: float = 0.0


def _sweep(marks: _Marks, window: _Span) -> _Spent:
    """Every moment of the window given to one phase."""
    spent = _Spent()
    kinds = (marks.epochs, marks.blocks, marks.evaluations, marks.paused)
    edges = [(window.begin, -1, 0), (window.end, -1, 0)]
    for kind, spans in enumerate(kinds):
        edges += [edge for span in spans for edge in ((span.begin, kind, 1), (span.end, kind, -1))]
    last_evaluated = max((e.end for e in marks.evaluations), default=window.end)
    open_now = [0] * len(kinds)
    trained = False
    for (at, kind, step), (until, _, _) in pairwise(sorted(edges)):
        if kind >= 0:
            open_now[kind] += step
        epoch, block, evaluation, paused = (count > 0 for count in open_now)
        training = (epoch or not marks.epochs) and (block or not marks.blocks) and not paused
        trained = trained or (training and until > at)
        took = until - at
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
            spent.after_ms += took if at >= last_evaluated else 0.0
    return spent


def _waits(epoch: _Span, evaluation: _Span) -> bool:
    """Whether the evaluation is of this epoch and wholly inside it, begun after it."""
    named = evaluation.label is not None and evaluation.label == epoch.label
    return named and epoch.begin < evaluation.begin and evaluation.end <= epoch.end


def _unmarked(events: Iterable[Event], evaluations: Sequence[_Span], window: _Span) -> _Span:
    """From v0.5's train_loop, else run_start, to the last evaluation, else run_stop."""
    begin, end = window.begin, max((e.end for e in evaluations), default=None)
    for event in events:
        at = event.time_ms
        if at is None or not window.begin <= at <= window.end:
            continue
        if event.key == "train_loop":
            begin = at
        elif event.key == "eval_accuracy" and not evaluations:
            end = at
    return _Span(begin, max(begin, window.end if end is None else end))


def _evaluated_points(events: Iterable[Event]) -> int:
    """Evaluations of a log that doesn't mark their beginning and end."""
    places = [_label(event) for event in events if event.key == "eval_accuracy"]
    return len(set(places)) if None not in places else len(places)


# Lines to intervals --------------------------------------------------------------------------------------


def _spans(events: Iterable[Event], what: str, window: _Span, last_ms: float) -> list[_Span]:
    """Intervals of one kind within the window; one without an end lasts until `last_ms`.

    For training that is where the last evaluation begins: what was begun later is not for the target.
    """
    found = _Opened()
    for event in events:
        if event.time_ms is None:
            continue
        if event.key == f"{what}_start":
            found.start(event.time_ms, _label(event))
        elif event.key == f"{what}_stop":
            found.stop(event.time_ms, _label(event))
    every = found.closed + [replace(span, end=last_ms) for span in found.open]
    cut = (replace(s, begin=max(s.begin, window.begin), end=min(s.end, window.end)) for s in every)
    return [span for span in cut if span.end > span.begin]


@dataclass
class _Opened:
    """Intervals of one kind while lines are read; a rank's repeat of a line opens and closes nothing anew."""

    open: list[_Span] = field(default_factory=list)
    closed: list[_Span] = field(default_factory=list)

    def start(self, at: float, label: Label) -> None:
        if all(span.label != label for span in self.open):
            self.open.append(_Span(at, at, label))

    def stop(self, at: float, label: Label) -> None:
        """Close the interval of that label, else the oldest."""
        own = next((span for span in self.open if span.label == label), None)
        if self._repeats(label, own):  # the last one lasted longer on this rank
            self.closed[-1] = replace(self.closed[-1], end=max(at, self.closed[-1].end))
        elif self.open:
            known = own or self.open[0]
            self.open.remove(known)
            self.closed.append(replace(known, end=at, stop_label=label))

    def _repeats(self, label: Label, own: _Span | None) -> bool:
        """Whether an end was there before. A block named by samples begins with the last one's end."""
        if label is None or not self.closed or self.closed[-1].stop_label != label:
            return False
        return own is None or self.closed[-1].label != label


def _label(event: Event) -> Label:
    """The epoch, or the samples, that a line is about."""
    places = (event.metadata.get(name) for name in _LABELS)
    stated = next((place for place in places if is_number(place)), event.value)
    if isinstance(stated, dict):  # v0.5
        stated = stated.get("epoch")
    return float(stated) if is_number(stated) else None

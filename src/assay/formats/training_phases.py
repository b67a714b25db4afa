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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from assay.formats.intervals import Label, Span, Timeline, label_of
from assay.formats.mllog import Event
from assay.formats.training_length import TrainingLength
from assay.records import TrainingPhases

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

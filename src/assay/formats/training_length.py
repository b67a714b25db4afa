"""How long a training ran until its target: epochs and samples, from its evaluations.

Rounds and benchmarks count differently under the same key: the tables in `counts.py` decide what `epoch_num`
and `train_samples` count, and the notes say so. Since v4.0, `samples_count` states samples directly.
Magnitude is only a check: if it contradicts the table, neither length is reported and a doubt says why. It
decides only if the table has no entry, and the notes say so.

In an evaluation, v0.5 puts the epoch into the value; a value may be one number, text, or numbers by name.
Evaluations that run next to the training are printed late and in any order: the position, not the line, shows
which one ended the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.formats.benchmarks import (
    LIKE_THE_DATA_SET,
    What,
    counted,
    counts_from_before,
    data_set,
    stated_size,
)
from assay.formats.doubts import LENGTH_CONTRADICTS
from assay.formats.mllog import Event, is_number
from assay.records import Doubt

_POSITIONS: Final = ("samples_count", "epoch_num", "epoch")  # the clearer key first
_NESTED: Final = 2  # {"accuracy": {"BBOX": …}} is the deepest form


@dataclass(frozen=True)
class Evaluation:
    """One `eval_accuracy` line.

    time_ms     as the line states it; None if it doesn't
    at          epochs, samples, or tokens trained; None if the line doesn't say
    in_samples  whether `at` is in samples, according to its key
    values      by metric; "" is the metric of a number without a name; empty if it is not a finite number
    """

    line: int
    time_ms: float | None
    at: float | None
    in_samples: bool
    values: tuple[tuple[str, float], ...]


def evaluation(event: Event) -> Evaluation:
    """What an `eval_accuracy` event says."""
    stated: Any = event.value
    where: Mapping[str, Any] = event.metadata
    if isinstance(stated, dict) and "epoch" in stated and "value" in stated:  # v0.5
        stated, where = stated["value"], stated
    position = next((key for key in _POSITIONS if is_number(where.get(key))), None)
    metric = event.metadata.get("metric")
    return Evaluation(
        line=event.line,
        time_ms=event.time_ms,
        at=None if position is None else float(where[position]),
        in_samples=position == "samples_count",
        values=tuple(_numbers(metric if isinstance(metric, str) else "", stated, _NESTED)),
    )


def final_values(evaluations: Iterable[Evaluation]) -> dict[str, tuple[float, int]]:
    """For each metric, the value of the evaluation that was made last, and its line.

    The furthest position is the last; if a line has no position, the order of lines decides.
    """
    in_order = list(evaluations)
    if all(e.at is not None for e in in_order):
        in_order.sort(key=lambda e: e.at or 0.0)
    return {metric: (value, e.line) for e in in_order for metric, value in e.values}


def _numbers(name: str, value: Any, depth: int) -> list[tuple[str, float]]:
    """The numbers in a value, named by their keys; depth is limited, since a hostile value never ends."""
    if isinstance(value, str):  # some logs write numbers as text
        try:
            value = float(value)
        except ValueError:
            return []
    if is_number(value):
        return [(name, float(value))]
    if not isinstance(value, dict) or depth == 0:
        return []
    return [number for key, inner in value.items() for number in _numbers(str(key), inner, depth - 1)]


MOST_EPOCHS: Final = 10_000  # no benchmark's reference trains longer (Unet3D: 4,472 epochs)
FEWEST_SAMPLES: Final = 1_000  # no reference that counts samples or tokens has fewer (LoRA: 2,688)


@dataclass(frozen=True)
class LoggedSize:
    """What a log says under `train_samples`.

    samples      None if it says nothing, or several things
    at_end       whether it was printed after the last evaluation: then it counts what the run processed
    of_data_set  whether it is known to count the training set, whatever the table says about the benchmark
    """

    samples: int | None = None
    at_end: bool = False
    of_data_set: bool = False


@dataclass(frozen=True)
class TrainingLength:
    """Epochs and samples at the last evaluation, which ended the run; None if the log doesn't show it.

    evaluations  (epochs, or samples if epochs are unknown; value) in log order
    data_set     samples in the training set; None if unknown
    multiplied   samples are epochs times the training set, not counted by the log
    notes        how the log's counts were interpreted, and based on what
    doubt        that its positions can't be what the table says; then neither length is reported
    """

    epochs: float | None = None
    samples: float | None = None
    evaluations: tuple[tuple[float, float], ...] = ()
    data_set: int | None = None
    multiplied: bool = False
    notes: tuple[str, ...] = ()
    doubt: Doubt | None = None


def training_length(
    evaluations: Sequence[Evaluation],
    logged: LoggedSize,
    *,
    benchmark: str | None,
    round_: str | None,
    submitter: str | None = None,
    batch: int | None = None,
) -> TrainingLength:
    """What the evaluations and `train_samples` say.

    benchmark, round_  as named by the result folders, None if unknown
    submitter          as named by the log or its folder
    batch              the global batch size
    """
    size, size_notes = _size(logged, benchmark, round_, submitter)
    placed = [e for e in evaluations if e.at is not None]
    if why := counts_from_before(benchmark, round_, submitter):
        return TrainingLength(data_set=size, notes=(why, *size_notes))
    if not placed:
        return TrainingLength(
            data_set=size, notes=("no eval_accuracy line has an epoch: epochs unknown", *size_notes)
        )
    notes = []
    if placeless := len(evaluations) - len(placed):
        notes.append(f"{placeless} of {len(evaluations)} eval_accuracy lines have no epoch")
    metric = next((e.values[0][0] for e in placed if e.values), "")
    if metric and len({name for e in placed for name, _ in e.values}) > 1:
        notes.append(f"an evaluation has several values; the series shows {metric}")
    understood = _understood(placed, size, benchmark, round_)
    seen = logged.samples if logged.at_end else None
    if (
        seen
        and understood.what == "samples"
        and {e.at for e in placed} == {1.0}
        and not placed[-1].in_samples
    ):
        note = f"{understood.note}; here it stays at {placed[-1].at:g}, and train_samples counts them"
        return TrainingLength(samples=float(seen), data_set=size, notes=(*notes, note, *size_notes))
    epochs, samples, scale = _lengths(placed, understood, size, batch)
    multiplied = understood.what == "epochs"
    if multiplied and seen and _counts_seen(benchmark, round_, submitter):
        samples, multiplied = float(seen), False
    series = ((e.at or 0.0, value) for e in placed for name, value in e.values[:1] if name == metric)
    once = tuple(
        dict.fromkeys((position * scale, value) for position, value in series)
    )  # ranks repeat each other
    if understood.doubt is not None:
        epochs = samples = None
    notes += [understood.note, *size_notes]
    return TrainingLength(epochs, samples, once, size, multiplied, tuple(notes), understood.doubt)


def _lengths(
    placed: Sequence[Evaluation], understood: _Understanding, size: int | None, batch: int | None
) -> tuple[float | None, float | None, float]:
    """Epochs and samples at the last evaluation, and the factor from positions to the series."""
    last = (max(e.at or 0.0 for e in placed) - understood.began_at) / understood.per_sample
    if understood.what == "epochs":
        each = _filled_up(size, batch) if size is not None and understood.filled_up else size
        return last, None if each is None else last * each, 1.0
    if size is None or not understood.passes:
        return None, last, 1 / understood.per_sample
    return last / size, last, 1 / (size * understood.per_sample)


def _filled_up(size: int, batch: int | None) -> int:
    """Samples in an epoch of whole batches."""
    return size if batch is None or batch > size else -(-size // batch) * batch


def _size(
    logged: LoggedSize, benchmark: str | None, round_: str | None, submitter: str | None
) -> tuple[int | None, tuple[str, ...]]:
    """Samples in the training set, and what was decided about it."""
    known, stated = data_set(benchmark, round_), stated_size(benchmark, round_, submitter)
    own = None if logged.at_end else logged.samples
    if logged.of_data_set or stated is None or stated.what == "data set":
        return (known.samples if own is None and known else own), ()
    if known is None:
        return None, (
            f"train_samples counts {stated.what}, according to {stated.source}: not the size of a data set",
        )
    if logged.samples is None or stated.what == "samples seen":
        return known.samples, ()
    if own is not None and abs(own / known.samples - 1) <= LIKE_THE_DATA_SET:
        return own, ()
    return known.samples, (
        f"train_samples is {logged.samples:,} and counts {stated.what}, according to {stated.source}; the "
        f"data set has {known.samples:,} samples ({known.source})",
    )


def _counts_seen(benchmark: str | None, round_: str | None, submitter: str | None) -> bool:
    stated = stated_size(benchmark, round_, submitter)
    return stated is not None and stated.what == "samples seen"


@dataclass(frozen=True)
class _Understanding:
    """What the positions count, how that is known, and what contradicts it."""

    what: What
    note: str
    per_sample: int = 1
    began_at: float = 0.0
    passes: bool = True
    filled_up: bool = False
    doubt: Doubt | None = None


def _understood(
    points: Sequence[Evaluation], size: int | None, benchmark: str | None, round_: str | None
) -> _Understanding:
    known = counted(benchmark, round_)
    if all(e.in_samples for e in points):
        note = "lengths are in samples: the log states samples_count"
        return _Understanding("samples", note, passes=known is not None and known.passes)
    subject = f"{benchmark or 'unknown benchmark'} in {round_ or 'an unknown round'}"
    samples = _in_samples(points, size)
    if known is None:
        taken = f"read as samples: {samples}" if samples else "read as epochs, as the key says"
        note = f"what epoch_num counts is unknown for {subject}; {taken}"
        most = max(e.at for e in points if e.at is not None)
        passes = size is not None and most >= size
        return _Understanding("samples", note, passes=passes) if samples else _Understanding("epochs", note)
    note = f"epoch_num counts {known.what}: {subject}, according to {known.source}"
    against = samples if known.what == "epochs" else _too_few(points)
    stated = f"epoch_num counts {known.what} in {subject} according to {known.source}, but here {against}"
    doubt = LENGTH_CONTRADICTS.doubt(stated) if against else None
    return _Understanding(
        known.what, note, known.per_sample, known.began_at, known.passes, known.filled_up, doubt
    )


def _in_samples(points: Sequence[Evaluation], size: int | None) -> str:
    """Why the positions look like samples; "" if they don't."""
    places = [e.at for e in points if e.at is not None]
    most = max(places)
    if most > MOST_EPOCHS:
        return f"it goes up to {most:g}, but no benchmark trains for more than {MOST_EPOCHS:,} epochs"
    if size is not None and size > 1 and all(place % size == 0 for place in places):
        return f"it goes up to {most:g} in whole multiples of the {size} training samples"
    return ""


def _too_few(points: Sequence[Evaluation]) -> str:
    """Why the positions look like epochs; "" if they don't."""
    most = max(e.at for e in points if e.at is not None)
    return f"it only goes up to {most:g}" if most < FEWEST_SAMPLES else ""

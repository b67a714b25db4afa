"""How far a training went until its target: epochs and samples, from its evaluations.

Rounds and benchmarks count differently under the same key: what `epoch_num` counts is decided by the table of
`epoch_num.py`, and said in the notes. From v4.0 `samples_count` says samples outright; v0.5 puts the epoch
into the value. Magnitude only checks: where it contradicts the table, neither is given and a doubt says why.
It decides where the table knows nothing, and the notes say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from assay.logs.epoch_num import Counted, What, counted
from assay.logs.mllog import Event
from assay.records import Doubt

MOST_EPOCHS: Final = 10_000  # no benchmark's reference trains longer (Unet3D: 4,472 epochs)
FEWEST_SAMPLES: Final = 1_000  # no reference that counts samples or tokens has fewer (LoRA: 2,688)


@dataclass(frozen=True)
class TrainingLength:
    """Epochs and samples at the last evaluation, the one that ended the run; None where the log can't tell.

    evaluations  (epochs, or samples where epochs are unknown; value) in the log's order
    multiplied   samples are epochs times the training set, not counted by the log
    notes        how the log's positions were understood, and by what
    doubt        that its positions can't be what the table says; then neither length is given
    """

    epochs: float | None = None
    samples: float | None = None
    evaluations: tuple[tuple[float, float], ...] = ()
    multiplied: bool = False
    notes: tuple[str, ...] = ()
    doubt: Doubt | None = None


@dataclass(frozen=True)
class _Evaluation:
    at: float
    in_samples: bool  # said outright, by the key
    value: float | None  # None where it is no finite number: a training that diverged
    metric: str  # where one evaluation logs several


def training_length(
    evaluations: Sequence[Event], data_set_samples: int | None, benchmark: str | None, round_: str | None
) -> TrainingLength:
    """What eval_accuracy events say.

    data_set_samples   of the training set, None if unknown
    benchmark, round_  as the result folders name them, None if unknown
    """
    found = [point for event in evaluations if (point := _evaluation(event)) is not None]
    if not found:
        return TrainingLength(notes=("no eval_accuracy that names an epoch: epochs unknown",))
    notes = []
    if placeless := len(evaluations) - len(found):
        notes.append(f"{placeless} of {len(evaluations)} eval_accuracy lines name no epoch")
    metric = found[0].metric
    if metric:
        notes.append(f"an evaluation has several values; the series shows {metric}")
    understood = _understood(found, data_set_samples, benchmark, round_)
    notes.append(understood.note)
    last, size = found[-1].at / understood.per_sample, data_set_samples
    if understood.what == "epochs":
        epochs, samples, scale = last, None if size is None else last * size, 1.0
    elif size is None:
        epochs, samples, scale = None, last, 1 / understood.per_sample
    else:
        epochs, samples, scale = last / size, last, 1 / (size * understood.per_sample)
    series = ((e.at * scale, e.value) for e in found if e.value is not None and e.metric == metric)
    once = tuple(dict.fromkeys(series))  # ranks repeat each other
    if understood.doubt is not None:
        epochs = samples = None
    multiplied = understood.what == "epochs"
    return TrainingLength(epochs, samples, once, multiplied, tuple(notes), understood.doubt)


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite number and no boolean; a whole number of hundreds of digits is none either."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@dataclass(frozen=True)
class _Understood:
    """What the positions count, how that is known, and what speaks against it."""

    what: What
    note: str
    per_sample: int = 1
    doubt: Doubt | None = None


def _understood(
    points: Sequence[_Evaluation], size: int | None, benchmark: str | None, round_: str | None
) -> _Understood:
    if all(e.in_samples for e in points):
        return _Understood("samples", "lengths are in samples: the log states samples_count")
    of = f"{benchmark or 'unknown benchmark'} in {round_ or 'an unknown round'}"
    known, samples = counted(benchmark, round_), _in_samples(points, size)
    if known is None:
        told = f"taken as samples: {samples}" if samples else "taken as epochs, as the key is called"
        note = f"what epoch_num counts isn't known of {of}; {told}"
        return _Understood("samples" if samples else "epochs", note)
    note = f"epoch_num counts {known.what}: {of}, by {known.source}"
    against = samples if known.what == "epochs" else _too_few(points)
    return _Understood(known.what, note, known.per_sample, _contradicts(known, of, against))


def _in_samples(points: Sequence[_Evaluation], size: int | None) -> str:
    """Why the positions look like samples, in words; "" where they don't."""
    most = max(e.at for e in points)
    if most > MOST_EPOCHS:
        return f"it goes to {most:g}, and no benchmark trains for more than {MOST_EPOCHS:,} epochs"
    if size is not None and size > 1 and all(e.at % size == 0 for e in points):
        return f"it goes to {most:g} in whole multiples of the {size} training samples"
    return ""


def _too_few(points: Sequence[_Evaluation]) -> str:
    """Why the positions look like epochs, in words; "" where they don't."""
    most = max(e.at for e in points)
    return f"it goes to {most:g} only" if most < FEWEST_SAMPLES else ""


def _contradicts(known: Counted, of: str, against: str) -> Doubt | None:
    if not against:
        return None
    return Doubt(
        "length-contradicts",
        f"epoch_num counts {known.what} in {of} by {known.source}, but here {against}",
        "Find out what the log counts; until then it has no epochs and no samples, and time to train stands",
    )


def _evaluation(event: Event) -> _Evaluation | None:
    """Where and what an eval_accuracy event says; None where it names no position."""
    stated = event.value
    where: Mapping[str, Any] = event.metadata
    if isinstance(stated, dict) and "epoch" in stated and "value" in stated:  # v0.5
        stated, where = stated["value"], stated
    position = next((key for key in _POSITIONS if is_number(where.get(key))), None)
    if position is None:
        return None
    numbers = _numbers("", stated)
    name, value = numbers[0] if numbers else ("", None)
    metric = where.get("metric") if len(numbers) == 1 else name
    return _Evaluation(
        at=float(where[position]),
        in_samples=position == "samples_count",
        value=value,
        metric=metric if isinstance(metric, str) else "",
    )


_POSITIONS: Final = ("samples_count", "epoch_num", "epoch")  # the plainer word first


def _numbers(name: str, value: Any, depth: int = 2) -> list[tuple[str, float]]:
    """The numbers in a value, named by their keys: Mask R-CNN's is `{"accuracy": {"BBOX": …, "SEGM": …}}`.

    No deeper than such logs go: a hostile one may nest without end.
    """
    if is_number(value):
        return [(name, float(value))]
    if isinstance(value, str):  # some logs write numbers as text
        try:
            number = float(value)
        except ValueError:
            return []
        return _numbers(name, number)
    if not isinstance(value, dict) or depth == 0:
        return []
    return [number for key, inner in value.items() for number in _numbers(str(key), inner, depth - 1)]

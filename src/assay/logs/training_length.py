"""How far a training went until its target: epochs and samples, from its evaluations.

Rounds and benchmarks count differently under the same key: `epoch_num` is epochs in most logs and samples in
some (Unet3D from v3.0, BERT); from v4.0 `samples_count` says samples outright; v0.5 puts the epoch into the
value. What was decided is said in the notes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from assay.logs.mllog import Event

MOST_EPOCHS: Final = 10_000  # no benchmark's reference trains longer; a larger epoch_num counts samples


@dataclass(frozen=True)
class TrainingLength:
    """Epochs and samples at the last evaluation, the one that ended the run; None where the log can't tell.

    evaluations  (epochs, or samples where epochs are unknown; value) in the log's order
    """

    epochs: float | None = None
    samples: float | None = None
    evaluations: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Evaluation:
    at: float
    in_samples: bool  # said outright, by the key
    value: float | None  # None where it is no finite number: a training that diverged
    metric: str  # where one evaluation logs several


def training_length(evaluations: Sequence[Event], data_set_samples: int | None) -> TrainingLength:
    """What eval_accuracy events say; `data_set_samples` is the size of the training set, None if unknown."""
    found = [point for event in evaluations if (point := _evaluation(event)) is not None]
    if not found:
        return TrainingLength(notes=("no eval_accuracy that names an epoch: epochs unknown",))
    notes = []
    if placeless := len(evaluations) - len(found):
        notes.append(f"{placeless} of {len(evaluations)} eval_accuracy lines name no epoch")
    metric = found[0].metric
    if metric:
        notes.append(f"an evaluation has several values; the series shows {metric}")
    in_samples, why = _counts_samples(found, data_set_samples)
    if why:
        notes.append(why)
    last, size = found[-1].at, data_set_samples
    if not in_samples:
        epochs, samples, scale = last, None if size is None else last * size, 1.0
    elif size is None:
        epochs, samples, scale = None, last, 1.0
    else:
        epochs, samples, scale = last / size, last, 1 / size
    series = ((e.at * scale, e.value) for e in found if e.value is not None and e.metric == metric)
    once = tuple(dict.fromkeys(series))  # ranks repeat each other
    return TrainingLength(epochs, samples, once, tuple(notes))


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite number and no boolean; a whole number of hundreds of digits is none either."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _counts_samples(points: Sequence[_Evaluation], size: int | None) -> tuple[bool, str]:
    """Whether the positions are samples, and in words how that was decided where it is not said."""
    if all(e.in_samples for e in points):
        return True, ""
    taken = f"epoch_num {max(e.at for e in points):g} is taken as samples, not epochs: "
    if max(e.at for e in points) > MOST_EPOCHS:
        return True, taken + f"no benchmark trains for more than {MOST_EPOCHS:,} epochs"
    if size is not None and size > 1 and all(e.at % size == 0 for e in points):
        return True, taken + f"all are whole multiples of the {size} training samples"
    return False, ""


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

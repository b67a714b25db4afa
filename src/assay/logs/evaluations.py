"""The evaluations of a training log: where each was made, and its result.

v0.5 puts the epoch into the value; a value may be one number, text, or numbers by name. Evaluations that run
next to the training are printed late and in any order: the position, not the line, shows which one ended
the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.logs.mllog import Event, is_number

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

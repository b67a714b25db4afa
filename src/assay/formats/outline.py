"""What a training log states, counted: keys with their lines, last evaluations, times.

A second pass over the file, made when rules are checked; scoring doesn't wait for it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.formats.doubts import failed_drop
from assay.formats.mllog import Event, EventReader
from assay.formats.training_length import Evaluation, evaluation, final_values
from assay.records import LoggedKey, LogOutline, Scalar

LINES_KEPT: Final = 5
VALUES_KEPT: Final = 5
LONGEST_VALUE: Final = 200
# ranks log them one after the other: the earliest start and the latest stop count
_STARTS: Final = ("init_start", "run_start", "cache_clear")
_STOPS: Final = ("init_stop", "run_stop")


def outline(path: Path) -> LogOutline:
    """The outline of one log; empty if the file can't be read. Never raises on its contents."""
    reader = EventReader(path)
    counts = Counter[str]()
    lines, values = defaultdict[str, list[int]](list), defaultdict[str, dict[Scalar, None]](dict)
    evaluations: list[Evaluation] = []
    times_ms: dict[str, float] = {}
    try:
        for event in reader:
            key = event.key
            counts[key] += 1
            if counts[key] <= LINES_KEPT:
                lines[key].append(event.line)
            if len(values[key]) < VALUES_KEPT:
                values[key][_value(event)] = None
            if key == "eval_accuracy" and not counts["run_stop"]:
                evaluations.append(evaluation(event))
            if event.time_ms is not None and key in (*_STARTS, *_STOPS):
                outermost = min if key in _STARTS else max
                times_ms[key] = outermost(event.time_ms, times_ms.get(key, event.time_ms))
    except InputError:
        pass  # reported where the log is read as a run; here it just states nothing

    def seconds(start: str, stop: str) -> float | None:
        known = start in times_ms and stop in times_ms
        return (times_ms[stop] - times_ms[start]) / 1000 if known else None

    return LogOutline(
        file=path.name,
        keys={key: LoggedKey(count, tuple(lines[key]), tuple(values[key])) for key, count in counts.items()},
        evaluations=final_values(evaluations),
        init_s=seconds("init_start", "init_stop"),
        run_s=seconds("run_start", "run_stop"),
        skipped_at=tuple(reader.skipped_at),
        cache_failure=failed_drop(reader.head),
        cleared_before_s=seconds("cache_clear", "run_start"),
    )


def _value(event: Event) -> Scalar:
    """What an event states; run_stop states its status, since v0.6 next to the value."""
    value = event.metadata.get("status") if event.key == "run_stop" else event.value
    value = event.value if value is None else value
    if isinstance(value, str):
        return value[:LONGEST_VALUE]
    if value is None or isinstance(value, bool | int | float):
        return value
    return json.dumps(value)[:LONGEST_VALUE]

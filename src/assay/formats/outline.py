"""What a training log states, counted: keys with their lines, last evaluations, times.

A second pass over the file, made when rules are checked; scoring doesn't wait for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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


def outline(path: Path) -> LogOutline:
    """The outline of one log; empty if the file can't be read. Never raises on its contents."""
    reader = EventReader(path)
    seen = _KeyCount()
    try:
        for event in reader:
            seen.add(event)
    except InputError:
        pass  # reported where the log is read as a run; here it just states nothing
    return LogOutline(
        file=path.name,
        keys={key: LoggedKey(k.count, tuple(k.lines), tuple(k.values)) for key, k in seen.keys.items()},
        evaluations=final_values(seen.evaluations),
        init_s=seen.seconds("init_start", "init_stop"),
        run_s=seen.seconds("run_start", "run_stop"),
        skipped_at=tuple(reader.skipped_at),
        cache_failure=failed_drop(reader.head),
        cleared_before_s=seen.seconds("cache_clear", "run_start"),
    )


@dataclass
class _Key:
    count: int = 0
    lines: list[int] = field(default_factory=list)
    values: dict[Scalar, None] = field(default_factory=dict)  # an ordered set


@dataclass
class _KeyCount:
    keys: dict[str, _Key] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    times_ms: dict[str, float] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        key = self.keys.setdefault(event.key, _Key())
        key.count += 1
        if len(key.lines) < LINES_KEPT:
            key.lines.append(event.line)
        if len(key.values) < VALUES_KEPT:
            key.values[_value(event)] = None
        if event.key == "eval_accuracy" and "run_stop" not in self.keys:
            self.evaluations.append(evaluation(event))
        if event.time_ms is not None:
            self._keep_time(event.key, event.time_ms)

    def _keep_time(self, key: str, time_ms: float) -> None:
        """The earliest start and the latest stop: ranks log them one after the other."""
        if key in ("init_start", "run_start", "cache_clear"):
            self.times_ms[key] = min(time_ms, self.times_ms.get(key, time_ms))
        elif key in ("init_stop", "run_stop"):
            self.times_ms[key] = max(time_ms, self.times_ms.get(key, time_ms))

    def seconds(self, start: str, stop: str) -> float | None:
        if start not in self.times_ms or stop not in self.times_ms:
            return None
        return (self.times_ms[stop] - self.times_ms[start]) / 1000


def _value(event: Event) -> Scalar:
    """What an event states; run_stop states its status, since v0.6 next to the value."""
    value = event.metadata.get("status") if event.key == "run_stop" else event.value
    value = event.value if value is None else value
    if isinstance(value, str):
        return value[:LONGEST_VALUE]
    if value is None or isinstance(value, bool | int | float):
        return value
    return json.dumps(value)[:LONGEST_VALUE]

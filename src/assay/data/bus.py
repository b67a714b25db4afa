"""What the vehicle's bus said when a frame was taken: A2D2's recordings, as columns of frames.

    SCENE/bus/….json
        of a recording     {"vehicle_speed": {"unit": "Unit_KiloMeterPerHour", "values": [[µs, 12.3], …]}, …}
        of single frames   [{"flexray": {"vehicle_speed": {"timestamps": [µs, …], "values": […]}}}, …]

A frame gets of each signal the value nearest in time, if it is near enough; else none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.data.catalog import Catalog
from assay.data.classes import query_words
from assay.data.frames import Column, Files
from assay_payloads.datasets.places import DataPlace

LARGEST_BYTES: Final = 2 << 30
SOURCE: Final = "bus"
MOST_SIGNALS: Final = 1000


@dataclass(frozen=True)
class BusJoin:
    """What the bus' values met.

    signals           names of the columns
    scenes            with a recording that was joined
    frames            with a value of at least one signal
    unmatched_frames  of the catalog, without any
    largest_offset_s  between a frame and the value that it got
    problems          recordings that can't be read, and clocks that disagree, each by name
    """

    signals: tuple[str, ...]
    scenes: int
    frames: int
    unmatched_frames: int
    largest_offset_s: float
    problems: tuple[str, ...]


@dataclass
class _Signal:
    unit: str = ""
    times_us: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def join_bus(
    catalog: Catalog, place: DataPlace, files: Files, within_s: float, *, changed: bool
) -> BusJoin | None:
    """Replace the bus' columns of a catalog's frames; None if there is no recording, or nothing has changed.

    files    of the place
    changed  whether frames are new, changed or have vanished since the last time
    """
    names = [name for name in sorted(files) if _scene(name) is not None]
    if not names:
        return None
    state = hashlib.sha256(json.dumps([place.address, within_s, [(n, *files[n]) for n in names]]).encode())
    if not changed and catalog.joined_from(SOURCE) == state.hexdigest():
        return None
    frames = _frames(catalog)
    problems: list[str] = []
    values_by_signal: dict[str, dict[str, Any]] = {}  # signal → label → value
    units: dict[str, str] = {}
    scenes, largest = 0, 0
    for scene in sorted({str(_scene(name)) for name in names} & frames.keys()):
        signals = _signals(place, [name for name in names if _scene(name) == scene], files, problems)
        for name, signal in signals.items():
            units.setdefault(name, signal.unit)
        apart = _clocks_apart(signals, frames[scene], within_s)
        if apart:
            problems.append(f"{scene}: {apart}; its values are not joined")
            continue
        scenes += bool(signals)
        largest = max(largest, _match(signals, frames[scene], within_s, values_by_signal))
    columns = _columns(catalog, list(units)[:MOST_SIGNALS], units)
    table, matched = _table(columns, values_by_signal)
    catalog.join(SOURCE, [column for column, _ in columns], table, "f.label = t.key_label")
    catalog.note_joined(SOURCE, "" if problems else state.hexdigest())
    ((total,),) = catalog.connection.execute("SELECT count(*) FROM frames").fetchall()
    signals_joined = tuple(column.name for column, _ in columns)
    return BusJoin(signals_joined, scenes, matched, total - matched, largest / 1e6, tuple(problems))


def _scene(name: str) -> str | None:
    """The scene of a recording, by its name; None for any other file."""
    parts = name.split("/")
    is_one = len(parts) >= 3 and parts[-2] == "bus" and parts[-1].endswith(".json")
    return parts[-3] if is_one else None


def _frames(catalog: Catalog) -> dict[str, list[tuple[str, int]]]:
    """Scene → label and time of its frames whose time is known."""
    by_scene: dict[str, list[tuple[str, int]]] = {}
    for scene, label, taken in catalog.connection.execute(
        "SELECT scene, label, taken_us FROM frames WHERE taken_us IS NOT NULL ORDER BY label"
    ).fetchall():
        by_scene.setdefault(scene, []).append((label, taken))
    return by_scene


def _signals(place: DataPlace, names: Sequence[str], files: Files, problems: list[str]) -> dict[str, _Signal]:
    signals: dict[str, _Signal] = {}
    for name in names:
        if files[name].size > LARGEST_BYTES:
            problems.append(f"{name}: has {files[name].size:,} bytes; expected at most {LARGEST_BYTES:,}")
            continue
        try:
            recorded = json.loads(place.read(name, 0, LARGEST_BYTES))
        except (ValueError, RecursionError) as error:
            problems.append(f"{name}: is not JSON: {error}")
            continue
        count = 0
        for signal, unit, time, value in _samples(recorded):
            own = signals.setdefault(signal, _Signal(unit))
            own.times_us.append(time)
            own.values.append(value)
            count += 1
        if not count:
            problems.append(f"{name}: has no signal with times and values")
    return signals


def _samples(recorded: Any) -> Iterator[tuple[str, str, int, float]]:
    """Signal, unit, time in µs and value of every sample that is one."""
    tables = recorded if isinstance(recorded, list) else [recorded]
    for table in tables:
        signals = table.get("flexray", table) if isinstance(table, Mapping) else None
        for name, signal in signals.items() if isinstance(signals, Mapping) else ():
            if not isinstance(signal, Mapping) or not isinstance(signal.get("values"), list):
                continue
            unit = signal.get("unit")
            times = signal.get("timestamps")
            pairs = (
                zip(times, signal["values"], strict=False) if isinstance(times, list) else signal["values"]
            )
            for pair in pairs:
                if (
                    isinstance(pair, list | tuple)
                    and len(pair) == 2
                    and _is_time(pair[0])
                    and _is_value(pair[1])
                ):
                    yield str(name), unit if isinstance(unit, str) else "", pair[0], float(pair[1])


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**62


def _is_value(value: object) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


def _clocks_apart(signals: Mapping[str, _Signal], frames: Sequence[tuple[str, int]], within_s: float) -> str:
    """How far the bus' clock is from the cameras', if no frame was taken while it was recorded; else ""."""
    from assay.units import human_seconds

    if not signals:
        return ""
    begin = min(min(signal.times_us) for signal in signals.values()) - within_s * 1e6
    end = max(max(signal.times_us) for signal in signals.values()) + within_s * 1e6
    if any(begin <= taken <= end for _, taken in frames):
        return ""
    first = min(taken for _, taken in frames)
    apart = (begin + within_s * 1e6 - first) / 1e6
    side = "ahead of" if apart > 0 else "behind"
    return f"the bus' clock is {human_seconds(abs(apart))} {side} the cameras'"


def _match(
    signals: Mapping[str, _Signal],
    frames: Sequence[tuple[str, int]],
    within_s: float,
    values_by_signal: dict[str, dict[str, Any]],
) -> int:
    """Add the nearest value of each signal to each frame; the largest distance in µs."""
    import numpy as np

    taken = np.array([time for _, time in frames], dtype=np.int64)
    largest = 0
    for name, signal in signals.items():
        order = np.argsort(np.array(signal.times_us, dtype=np.int64), kind="stable")
        times, values = np.array(signal.times_us, dtype=np.int64)[order], np.array(signal.values)[order]
        after = np.searchsorted(times, taken).clip(0, len(times) - 1)
        before = (after - 1).clip(0)
        nearest = np.where(abs(taken - times[before]) <= abs(times[after] - taken), before, after)
        offset = abs(times[nearest] - taken)
        near = np.flatnonzero(offset <= within_s * 1e6)
        own = values_by_signal.setdefault(name, {})
        for index in near.tolist():
            own[frames[index][0]] = values[nearest[index]]
        largest = max(largest, int(offset[near].max(initial=0)))
    return largest


def _columns(catalog: Catalog, signals: Sequence[str], units: Mapping[str, str]) -> list[tuple[Column, str]]:
    """A column per signal, by a name that no other column has."""
    others = set(catalog.columns) - {column.name for column in catalog.about.extra if column.source == SOURCE}
    named_columns = []
    for name, word in zip(signals, query_words(signals), strict=True):
        free = word if word not in others else f"bus_{word}"
        named_columns.append((Column(free, "number", SOURCE, units[name]), name))
    return named_columns


def _table(
    columns: Sequence[tuple[Column, str]],
    values_by_signal: Mapping[str, Mapping[str, float]],
) -> tuple[dict[str, Any], int]:
    """Arrays by name, unknown values masked, a row for each frame with a value; and how many those are."""
    import numpy as np

    labels = sorted(set().union(*(own.keys() for own in values_by_signal.values())))
    table: dict[str, Any] = {"key_label": np.array(labels, dtype=object)}
    for column, name in columns:
        own = values_by_signal.get(name, {})
        mask = [label not in own for label in labels]
        table[column.name] = np.ma.array(
            [own.get(label, 0.0) for label in labels], mask=mask, dtype=np.float64
        )
    return table, len(labels)

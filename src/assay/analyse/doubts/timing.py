"""Doubts about the duration of measurements: too short for the clock."""

from __future__ import annotations

from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.points.case import Case
from assay.records import DEFAULT_MARGIN, Measurement, Point, Result
from assay.units import human, percent

SHORTEST_S = 0.1  # below, one time slice of another process (a few ms) is several percent
STAMP_S = 1e-3  # MLLOG stamps are whole milliseconds


def too_short(case: Case) -> str | None:
    """Runs that timed less than a tenth of a second, or so little that their clock's step matters."""
    margin = case.margin or DEFAULT_MARGIN
    for side in case.sides:
        point = side.group.point
        timed = [
            (seconds, s.result)
            for s in side.group.samples
            if (seconds := timed_s(s.result, point)) is not None
        ]
        if not timed:
            continue
        seconds, result = min(timed, key=lambda pair: pair[0])
        step = STAMP_S / seconds if result.reading.training is not None and seconds > 0 else 0.0
        if seconds >= SHORTEST_S and step <= margin / 10:
            continue
        worth = f"; its log's clock steps by {percent(step)} of that" if step > margin / 10 else ""
        return f"{side.name}: {result.run.trial.id} timed {human(seconds, 's')}{worth}"
    return None


TOO_SHORT = CaseDoubtKind(
    code="too-short",
    subject="runs",
    severity="biased",
    means=(
        "A run timed less than 0.1 s, or so little that one step of its log's millisecond stamps is more "
        "than a tenth of the margin."
    ),
    effect=(
        "An interruption of a few milliseconds, a clock that is still ramping up, or the timer's own step is "
        "a considerable part of the result."
    ),
    remedy=(
        "Measure for seconds (`min_time_s`, `steps`, a larger problem): interruptions, clock ramps and the "
        "timer's step are then small shares."
    ),
    evidence=too_short,
)


def timed_s(result: Result, point: Point) -> float | None:
    """Duration of a run's measurement of a point, seconds; None if neither parameters nor log state it."""
    reading, params = result.reading, result.run.trial.params
    if reading.training is not None and reading.training.minutes is not None:
        return reading.training.minutes * 60
    least = params.get("min_time_s")
    if isinstance(least, int | float):
        return float(least)
    part = next((m.value for m in reading.measurements if _is_time_of(m, point)), None)
    if part is not None:
        return part
    steps = params.get("steps")
    each = next((m.value for m in reading.measurements if m.metric == "step_time" and m.unit == "s"), None)
    if isinstance(steps, int) and each is not None:
        return steps * each
    return None


def _is_time_of(measured: Measurement, point: Point) -> bool:
    """Whether it is the time in which a log's part with the labels of the point ran."""
    labels = {name: value for name, value in measured.labels.items() if name != "direction"}
    direction = measured.labels.get("direction")
    same_way = direction in (None, point.labels.get("direction")) or str(direction) in point.metric
    return measured.metric == "run_time" and same_way and labels.items() <= point.labels.items()

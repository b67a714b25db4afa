"""Doubts about values that are impossible, show an accelerator hardly used, or took too short to measure."""

from __future__ import annotations

from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.expectations.references import (
    HALF,
    REFERENCES,
    PublishedFigure,
    matching,
    of_name,
    workload_of,
)
from assay.analyse.expectations.shares import accelerator_name, arithmetic_of, number_format
from assay.analyse.points.case import Case, Side
from assay.analyse.points.ratio import mean
from assay.records import DEFAULT_MARGIN, Measurement, Point, Result
from assay.units import convert, factor, fixed, human, percent

_ARITHMETIC, _MEMORY = "flop_rate", "bandwidth"
BEYOND = 1.05  # published values include evaluation, and come from few runs: slightly more is plausible


def _reached(accelerator: str) -> list[str]:
    """Published ResNet-50 throughputs on one such accelerator, images per second, the slowest first."""
    known = (r for r in REFERENCES if r.workload == "resnet50" and accelerator in r.accelerators)
    return [f"{each:,.0f}" for each in sorted(reference.each for reference in known)]


_V100, _A100 = _reached("Tesla V100-SXM2-16GB"), _reached("NVIDIA A100-SXM4-80GB")
_H100, _H200 = _reached("NVIDIA H100 80GB HBM3"), _reached("NVIDIA H200")


def above_best_known(case: Case) -> str | None:
    """A value above the accelerator's peak, or a training faster than any published one."""
    for side in case.sides:
        evidence = _above_peak(side) or _above_published(side)
        if evidence:
            return f"{side.name}: {evidence}"
    return None


ABOVE_BEST_KNOWN = CaseDoubtKind(
    code="above-best-known",
    subject="machines",
    severity="invalid",
    means=(
        "Arithmetic or memory bandwidth is above the peak that the manufacturer states for the accelerator, "
        "or training is over 5 % faster on one accelerator than any published result (ResNet-50 at 224×224: "
        f"{_H100[-1]} images/s on an H100, {_H200[-1]} on an H200)."
    ),
    effect="Most likely less work was done than counted, or the clock did not wait for the GPU.",
    remedy=(
        "Synchronize with the GPU before you read the clock; check problem size and batch, and look for "
        "skipped gradients, arrays or results that stay in a cache, and ranks that are counted twice."
    ),
    evidence=above_best_known,
)


def _above_peak(side: Side) -> str:
    """What contradicts the data sheet, as text; "" if nothing does, or it is unknown."""
    name = accelerator_name(side.group.samples[0].result)
    device = None if name is None else of_name(name)
    if device is None:
        return ""
    peaks = {
        _ARITHMETIC: device.peak_flop_per_s.get(number_format(side.group)),
        _MEMORY: device.memory_bytes_per_s,
    }
    peak = peaks.get(side.group.point.metric)
    each = _each(side)
    if peak is None or each <= peak:
        return ""
    unit = factor(side.group.point.unit)[1]
    return f"{human(each, unit)} on one {name}, whose peak is {human(peak, unit)} ({device.source})"


def _above_published(side: Side) -> str:
    known = _published(side, HALF[0])  # the fastest formats: no other is faster
    if not known:
        return ""
    best = max(known, key=lambda reference: reference.each)
    each = _each(side)
    if each <= BEYOND * best.each:
        return ""
    return (
        f"{fixed(each, 0)} {side.group.point.unit} on one accelerator; the fastest known value is "
        f"{best.each:,.0f} ({best.what}; {best.source})"
    )


def far_below_reference(case: Case) -> str | None:
    """Less than half of the slowest published value for this accelerator and number format."""
    for side in case.sides:
        known = _published(side, arithmetic_of(side.group)[0])
        if not known:
            continue
        least = min(known, key=lambda reference: reference.each)
        each = _each(side)
        if each < least.each / 2:
            return (
                f"{side.name}: {fixed(each, 0)} {side.group.point.unit} on one accelerator, and so the MFU, "
                f"is {each / least.each:.0%} of the slowest published ({least.each:,.0f}: {least.what}; "
                f"{least.source})"
            )
    return None


MFU_FAR_BELOW = CaseDoubtKind(
    code="mfu-far-below",
    subject="machines",
    severity="weak",
    means=(
        "A training with 16-bit arithmetic is slower than half of the slowest published value for its "
        f"accelerator, and so is its MFU (ResNet-50: {_V100[0]} images/s on a V100, {_A100[0]} on an A100, "
        f"{_H100[0]} on an H100)."
    ),
    effect="Something other than the accelerator limits the run, so a comparison is about that.",
    remedy=(
        "Raise the batch size, use channels_last and 16-bit arithmetic, and make sure that no GPU waits for "
        "data, for the host or for another GPU."
    ),
    evidence=far_below_reference,
)


def _published(side: Side, number_format: str) -> tuple[PublishedFigure, ...]:
    """Published results for one accelerator of this kind; empty if the run is not of that kind."""
    result = side.group.samples[0].result
    name, trial = accelerator_name(result), result.run.trial
    if name is None or min(side.group.values) <= 0:
        return ()
    known = matching(
        workload_of(result), side.group.point.metric, name, number_format, trial.shape.ranks, None
    )
    return tuple(reference for reference in known if reference.nodes is None)


def _each(side: Side) -> float:
    """The mean per accelerator, in the unit's base."""
    point = side.group.point
    return convert(mean(side.group.values), point.unit, factor(point.unit)[1]) / side.group.ranks


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

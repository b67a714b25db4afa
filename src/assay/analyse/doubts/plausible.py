"""Doubts about figures that can't be, or that say that the accelerator was hardly used."""

from __future__ import annotations

from assay.analyse.accelerators import of_name
from assay.analyse.doubts.case import Case, Side
from assay.analyse.expected import accelerator_name, arithmetic_of, number_format
from assay.analyse.ratio import mean
from assay.analyse.references import HALF, Reference, matching, workload_of
from assay.records import Doubt, Shape
from assay.units import convert, factor, human

_ARITHMETIC, _MEMORY = "flop_rate", "bandwidth"
BEYOND = 1.05  # published figures hold evaluation, and a few runs of others: a little more is no wonder


def above_best_known(case: Case) -> Doubt | None:
    """A figure above the accelerator's peak, or a training that nobody has seen so fast on it."""
    for side in case.sides:
        evidence = _above_peak(side) or _above_published(side)
        if evidence:
            return Doubt(
                "above-best-known",
                f"{side.name}: {evidence}",
                "Look for steps that the clock did not wait for (no synchronisation with the GPU), a smaller "
                "problem, skipped gradients, a result kept in cache, or ranks counted twice",
            )
    return None


def _above_peak(side: Side) -> str:
    """What the data sheet does not allow, in words; "" where it does, or is not known."""
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
    known = _published(side, HALF[0])  # the fastest formats: no other is quicker
    if not known:
        return ""
    best = max(known, key=lambda reference: reference.each)
    each = _each(side)
    if each <= BEYOND * best.each:
        return ""
    return (
        f"{each:,.0f} {side.group.point.unit} on one accelerator, where the fastest known is "
        f"{best.each:,.0f} ({best.what}; {best.source})"
    )


def far_below_reference(case: Case) -> Doubt | None:
    """Less than half of the slowest published figure of this accelerator and number format."""
    for side in case.sides:
        known = _published(side, arithmetic_of(side.group)[0])
        if not known:
            continue
        least = min(known, key=lambda reference: reference.each)
        each = _each(side)
        if each < least.each / 2:
            return Doubt(
                "mfu-far-below",
                f"{side.name}: {each:,.0f} {side.group.point.unit} on one accelerator, and so the MFU, is "
                f"{each / least.each:.0%} of the slowest published ({least.each:,.0f}: {least.what}; "
                f"{least.source})",
                "Raise the batch, check channels_last and 16-bit arithmetic, and that no GPU waits for data",
            )
    return None


def _published(side: Side, number_format: str) -> tuple[Reference, ...]:
    """What was published of one accelerator of this kind; empty where the run is not of that kind."""
    result = side.group.samples[0].result
    name, trial = accelerator_name(result), result.run.trial
    if name is None or min(side.group.values) <= 0:
        return ()
    known = matching(
        workload_of(result), side.group.point.metric, name, number_format, trial.shape.ranks, None
    )
    return tuple(reference for reference in known if reference.nodes is None)


def _each(side: Side) -> float:
    """The mean of one accelerator, in the unit's base."""
    point = side.group.point
    return (
        convert(mean(side.group.values), point.unit, factor(point.unit)[1]) / Shape.parse(point.shape).ranks
    )

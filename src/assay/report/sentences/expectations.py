"""Measurements compared with the hardware's peaks and with published results, as text."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.expectations.shares import PublishedRange, Usage
from assay.report import figures
from assay.units import factor

_KINDS = {
    "mfu": "MFU",
    "arithmetic": "of peak arithmetic",
    "memory-bandwidth": "of peak memory bandwidth",
    "line-rate": "of line rate",
}


def words(found: Sequence[Usage]) -> list[str]:
    """One line per measurement that can be judged, then each reason why others can't be, once."""
    told = [line for one in found for line in _lines(one)]
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.share is None:
            of = reasons.setdefault(one.why, [])
            of += [] if one.point.benchmark in of else [one.point.benchmark]
    return told + [f"{', '.join(of)}: {why}" for why, of in reasons.items()]


def _lines(one: Usage) -> list[str]:
    place = f"{one.point.benchmark} {figures.metric(one.point.metric)}, {figures.where(one.point)}"
    told = []
    if one.share is not None:
        beyond = " – this is impossible: look for an error in the measurement" if one.share.value > 1 else ""
        told.append(
            f"{place}: {figures.share(one.share)} {_KINDS[one.kind]} ({one.of}; {one.source}){beyond}"
        )
    if one.normal is not None:
        told.append(f"{place}: {normal(one.normal, one.point.unit)}")
    return told


def normal(found: PublishedRange, unit: str) -> str:
    """`within published results, 887.0 to 1,040.2 images/s per accelerator (…)`: is this normal?"""
    shown, (low, high) = figures.column([found.low, found.high], factor(unit)[1])
    reach = f"{low if low == high else f'{low} to {high}'} {shown}"
    sources = "; ".join(f"{r.what}: {r.source}" for r in found.references)
    return f"{found.verdict} published results, {reach}{' per accelerator' if found.each else ''} ({sources})"

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


def describe_usages(usages: Sequence[Usage]) -> list[str]:
    """One line per measurement that can be judged, then each reason why others can't be, once."""
    lines = [line for usage in usages for line in _usage_lines(usage)]
    reasons: dict[str, list[str]] = {}
    for usage in usages:
        if usage.share is None:
            benchmarks = reasons.setdefault(usage.why, [])
            benchmarks += [] if usage.point.benchmark in benchmarks else [usage.point.benchmark]
    return lines + [f"{', '.join(benchmarks)}: {why}" for why, benchmarks in reasons.items()]


def _usage_lines(usage: Usage) -> list[str]:
    place = f"{usage.point.benchmark} {figures.metric(usage.point.metric)}, {figures.where(usage.point)}"
    lines = []
    if usage.share is not None:
        beyond = (
            " – this is impossible: look for an error in the measurement" if usage.share.value > 1 else ""
        )
        lines.append(
            f"{place}: {figures.share(usage.share)} {_KINDS[usage.kind]} ({usage.of}; {usage.source}){beyond}"
        )
    if usage.normal is not None:
        lines.append(f"{place}: {normal(usage.normal, usage.point.unit)}")
    return lines


def normal(published: PublishedRange, unit: str) -> str:
    """`within published results, 887.0 to 1,040.2 images/s per accelerator (…)`: is this normal?"""
    shown, (low, high) = figures.column([published.low, published.high], factor(unit)[1])
    reach = f"{low if low == high else f'{low} to {high}'} {shown}"
    sources = "; ".join(f"{r.what}: {r.source}" for r in published.references)
    each = " per accelerator" if published.each else ""
    return f"{published.verdict} published results, {reach}{each} ({sources})"

"""How numbers and points are written for people: figures that stand together share prefix and decimals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.records import Comparison, Doubt, Estimate, Point, Scalar, Shape
from assay.units import factor, human

_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
NONE = "–"  # where the runs allow no interval, or there is no figure
_TIMES = (("h", 7200.0, 3600.0), ("min", 120.0, 60.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 0.0, 1e-6))
_WIDEST_COLUMN = 100.0  # a larger spread does not read well under one prefix


@dataclass(frozen=True)
class Scale:
    """A unit that fits a group of figures: multiply by `per_unit` and write with `decimals`."""

    unit: str
    per_unit: float
    decimals: int

    def text(self, value: float) -> str:
        """The figure alone, to stand in a column under its unit."""
        return f"{value * self.per_unit:,.{self.decimals}f}"


def scale_of(values: Sequence[float], unit: str) -> Scale | None:
    """The scale under which these figures stand in one column; None where they spread too far for one.

    >>> scale_of([9.2e10, 1.31e11], "FLOP/s")
    Scale(unit='GFLOP/s', per_unit=1e-09, decimals=1)
    """
    sizes = [abs(v) for v in values if v and math.isfinite(v)]
    if not sizes:
        return Scale(unit, 1.0, 0)
    if max(sizes) / min(sizes) > _WIDEST_COLUMN:
        return None
    shown, per_unit = _fitting_unit(min(sizes), unit)
    digits_before = math.floor(math.log10(min(sizes) * per_unit)) + 1
    return Scale(
        shown, per_unit, max(0, 3 - digits_before) if max(sizes) > 10 * min(sizes) else _fine(digits_before)
    )


def column(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """Unit and texts of figures that stand under each other; where the unit is "", each text has its own."""
    scale = scale_of(values, unit)
    if scale is None:
        return "", [human(v, unit) for v in values]
    return scale.unit, [scale.text(v) for v in values]


def _fine(digits_before: int) -> int:
    return max(0, 4 - digits_before)


def _fitting_unit(size: float, unit: str) -> tuple[str, float]:
    up, base = factor(unit)
    size *= up
    if base.partition("/")[0] in ("FLOP", "B", "Hz", "W", "J"):
        prefix, worth = next(((p, w) for p, w in _PREFIXES if size >= w), ("", 1.0))
        return prefix + base, up / worth
    if base == "s":
        name, worth = next((n, w) for n, least, w in _TIMES if size >= least)
        return name, up / worth
    return unit, 1.0


def ratio(estimate: Estimate) -> str:
    """`0.996 (0.981 to 1.009)`: the ratio with its interval, to the digits that the interval carries."""
    if math.isnan(estimate.value):
        return "no ratio"
    ends, value = interval(estimate), ratio_value(estimate)
    return value if ends == NONE else f"{value} ({ends})"


def interval(estimate: Estimate, to: str = " to ") -> str:
    """`0.981 to 1.009`; a dash where the runs allow none."""
    if estimate.low is None or estimate.high is None:
        return NONE
    digits = _ratio_digits(estimate)
    low, high = (_ratio_number(end, digits) for end in (estimate.low, estimate.high))
    return f"{'>' * _only_just(estimate.low)}{low}{to}{'<' * _only_just(estimate.high)}{high}"


def _only_just(end: float) -> bool:
    """Whether an end excludes 1 without saying by how much: that of a claim beside others (Holm)."""
    return end != 1 and abs(end - 1) < 1e-9


def ratio_value(estimate: Estimate) -> str:
    """The ratio alone, to the digits that its interval carries; a dash where there is none."""
    if math.isnan(estimate.value):
        return NONE
    if estimate.value == 1 and estimate.low is None:  # a size against itself
        return "1"
    return _ratio_number(estimate.value, _ratio_digits(estimate))


def ratio_span(estimates: Sequence[Estimate]) -> str:
    """`0.98 to 1.03`: the least and the most, to the digits that the widest interval carries."""
    digits = min(map(_ratio_digits, estimates))
    values = [e.value for e in estimates]
    least, most = (_ratio_number(end, digits) for end in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def _ratio_digits(estimate: Estimate) -> int:
    """Decimals that the interval carries: two digits of its width, and no end is rounded onto 1."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return 3
    digits = 4 if high - low < 1e-3 else min(4, max(1, 1 - math.floor(math.log10(high - low))))
    while digits < 4 and any(end != 1 and float(f"{end:.{digits}f}") == 1 for end in (low, high)):
        digits += 1
    return digits


def _ratio_number(value: float, digits: int) -> str:
    """Decimals near 1, two significant digits where the ratio says little else than that it is far off."""
    if not 0.1 <= value < 10:
        return f"{value:.2g}"
    return f"{value:.{max(digits, 2) if value < 1 else digits}f}"


def measured(estimate: Estimate | None) -> tuple[str, str, str]:
    """What was measured with its unit, its interval and n as texts; `nothing` where nothing was."""
    if estimate is None:
        return "nothing", NONE, "0"
    low, high = estimate.low, estimate.high
    ends = [estimate.value] if low is None or high is None else [estimate.value, low, high]
    unit, texts = column(ends, estimate.unit)
    return f"{texts[0]} {unit}".strip(), " to ".join(texts[1:]) or NONE, str(estimate.n)


def percent(share: float) -> str:
    """`2 %`, `1.4 %`, `0.35 %`: two significant digits; `over 1000 %` where the figure means nothing more."""
    if share > 10:
        return "over 1000 %"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def span(least: float, most: float) -> str:
    """`1.4 %` or `0.5 to 17 %`."""
    low, high = percent(least), percent(most)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def runs(n: Sequence[tuple[int, int]]) -> str:
    """`4 + 4`, or `3 + 4 to 4 + 4`: runs of A and of B."""
    least, most = min(n), max(n)
    text = f"{least[0]} + {least[1]}"
    return text if least == most else f"{text} to {most[0]} + {most[1]}"


def shape(text: str) -> str:
    """`2 workers × 8` for `2x8`; `2 workers` where each has one accelerator."""
    it = Shape.parse(text)
    words = "1 worker" if it.workers == 1 else f"{it.workers} workers"
    if it.accelerators > 1:
        words += f" × {it.accelerators}"
    return words if it.nodes is None else f"{words} on {it.nodes} node{'s' * (it.nodes > 1)}"


def labels(table: Mapping[str, Scalar]) -> str:
    """`size 512, dtype fp32`; payloads in binary units as their programs step them."""
    return ", ".join(_label(name, value) for name, value in table.items())


def _label(name: str, value: Scalar) -> str:
    words = name.replace("_", " ")
    if name.endswith("_bytes") and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{words.removesuffix(' bytes')} {binary_bytes(value)}"
    return f"{words} {value}"


def binary_bytes(value: float) -> str:
    """`4 MiB`, `512 B`; the sizes that benchmarks step through are powers of two."""
    for prefix, worth in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if value >= worth:
            return f"{value / worth:.4g} {prefix}B"
    return f"{value:.4g} B"


def metric(name: str) -> str:
    """`time to train` for `time_to_train`."""
    return name.replace("_", " ")


def where(point: Point, shared: Mapping[str, Scalar] | None = None) -> str:
    """`2 workers, size 512`: a point's place within its benchmark and metric, less what a heading says."""
    return ", ".join(filter(None, (shape(point.shape), labels(own_labels(point.labels, shared or {})))))


def shared_labels(tables: Sequence[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """What is the same at every point of a table's section, to be said once in its heading."""
    first, *others = tables
    return {name: value for name, value in first.items() if all(t.get(name) == value for t in others)}


def own_labels(table: Mapping[str, Scalar], shared: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A point's labels without those that its section's heading says."""
    return {name: value for name, value in table.items() if name not in shared}


def distinct_doubts(comparisons: Sequence[Comparison]) -> list[tuple[Doubt, list[Comparison]]]:
    """Each doubt once by code, with the first evidence met and all the comparisons that it concerns."""
    found: dict[str, tuple[Doubt, list[Comparison]]] = {}
    for comparison in comparisons:
        for doubt in comparison.doubts:
            found.setdefault(doubt.code, (doubt, []))[1].append(comparison)
    return list(found.values())

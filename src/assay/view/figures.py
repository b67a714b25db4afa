"""How numbers and points are formatted for people: numbers shown together share prefix and decimals."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from assay.records import Comparison, Doubt, Estimate, Point, Scalar, Shape
from assay.units import exponent, factor, fixed, significant

T = TypeVar("T")
_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
NONE = "–"  # no interval is possible, or there is no value
_TIMES = (("h", 7200.0, 3600.0), ("min", 120.0, 60.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 0.0, 1e-6))
_WIDEST_COLUMN = 100.0  # values with a larger spread get individual decimals
_LARGEST = 100  # an interval that reaches beyond this ratio and its inverse says nothing; shown as such
_FEWEST_DECIMALS = -400  # if no interval requires any: below the exponent of the largest float
MOST_DIGITS = 12  # a narrower interval is only rounding error


@dataclass(frozen=True)
class DisplayUnit:
    """A unit that fits a group of values: multiply by `per_unit` and write with `decimals`.

    decimals  None if the values spread too far for a common number: each has four significant digits
    """

    unit: str
    per_unit: float
    decimals: int | None


def scale_of(values: Sequence[float], unit: str) -> DisplayUnit:
    """The scale that shows these values as one column; for widely spread ones, the unit of the middle value.

    >>> scale_of([9.2e10, 1.31e11], "FLOP/s")
    DisplayUnit(unit='GFLOP/s', per_unit=1e-09, decimals=2)
    """
    sizes = [abs(v) for v in values if v and math.isfinite(v)]
    if not sizes:
        return DisplayUnit(unit, 1.0, 0)
    least, most = min(sizes), max(sizes)
    if most / least > _WIDEST_COLUMN:
        shown, per_unit = _fitting_unit(math.sqrt(least) * math.sqrt(most), unit)
        return DisplayUnit(shown, per_unit, None)
    shown, per_unit = _fitting_unit(least, unit)
    digits = 3 if most > 10 * least else 4
    return DisplayUnit(shown, per_unit, digits - 1 - exponent(least * per_unit, digits))


def column(values: Sequence[float], unit: str, halves: Sequence[float | None] = ()) -> tuple[str, list[str]]:
    """The unit that all values of a column share, and the values as texts.

    halves  half of each value's interval, in `unit`, or None; the texts show two digits of it
    """
    scale = scale_of(values, unit)
    if not values:
        return scale.unit, []
    shown = [value * scale.per_unit for value in values]
    widths = [half and half * scale.per_unit for half in halves] or [None] * len(values)
    if scale.decimals is None:
        return scale.unit, [_alone(v, w) for v, w in zip(shown, widths, strict=True)]
    precise = max(scale.decimals, *map(_decimals, widths))
    decimals = max(
        scale.decimals, min(precise, MOST_DIGITS - 1 - exponent(max(map(abs, shown)), MOST_DIGITS))
    )
    return scale.unit, [fixed(value, decimals) for value in shown]


def half_width(estimate: Estimate) -> float | None:
    """Half of the interval, in the estimate's unit; None if there is no interval."""
    return None if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2


def means(comparisons: Sequence[Comparison]) -> tuple[str, list[str]]:
    """The unit of both sides' means, and A's and B's as texts; their quotient is the shown ratio."""
    values = [mean for c in comparisons for mean in (c.mean_a, c.mean_b)]
    halves = [half for c in comparisons for half in _halves_of_means(c)]
    return column(values, comparisons[0].point.unit, halves)


def _halves_of_means(c: Comparison) -> list[float | None]:
    half = half_width(c.ratio)
    if half is None or not c.ratio.value > 0:
        return [None, None]
    return [abs(mean) * half / c.ratio.value for mean in (c.mean_a, c.mean_b)]


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


def _decimals(half: float | None) -> int:
    """Decimals that show two significant digits of half an interval; negative if it is wide or missing."""
    return 1 - exponent(half, 2) if half and math.isfinite(half) else _FEWEST_DECIMALS


def _alone(value: float, half: float | None) -> str:
    """A value by itself: four significant digits, or more if its interval is narrower."""
    if not value:
        return "0"
    decimals = max(3 - exponent(value, 4), min(_decimals(half), MOST_DIGITS - 1 - exponent(value, 4)))
    return fixed(value, decimals)


def ratio(estimate: Estimate) -> str:
    """`0.996 (0.981 to 1.009)`: the ratio with its interval, to the digits that the interval carries."""
    if math.isnan(estimate.value):
        return "no ratio"
    ends, value = interval(estimate), ratio_value(estimate)
    return value if ends == NONE else f"{value} ({ends})"


def interval(estimate: Estimate, to: str = " to ") -> str:
    """`0.981 to 1.009`; a dash if the runs allow no interval."""
    if estimate.low is None or estimate.high is None:
        return NONE
    if estimate.low < 1 / _LARGEST and estimate.high > _LARGEST:  # too wide to be informative
        return f"<{1 / _LARGEST:g}{to}>{_LARGEST}"
    digits = _ratio_digits(estimate)
    low, high = (_number(end, digits) for end in (estimate.low, estimate.high))
    return f"{'>' * _only_just(estimate.low)}{low}{to}{'<' * _only_just(estimate.high)}{high}"


def compared(c: Comparison) -> str:
    """`0.904 (0.879 to <1.000; alone 0.890 to 0.919)`: the ratio with the interval that decides.
    If that interval gives only the direction, because the claim is one of several, the uncorrected one
    follows.
    """
    value, ends = ratio_value(c.deciding), deciding_interval(c)
    return value if ends == NONE else f"{value} ({ends})"


def deciding_interval(c: Comparison) -> str:
    """`0.981 to 1.009`, or `0.879 to <1.000; alone 0.890 to 0.919`; a dash if the runs allow no interval."""
    alone = alone_beside(c)
    return interval(c.deciding) + (f"; alone {alone}" if alone else "")


def alone_beside(c: Comparison, to: str = " to ") -> str:
    """The comparison's uncorrected interval, if the one that decides is open at 1; else ""."""
    ends = [end for end in (c.deciding.low, c.deciding.high) if end is not None]
    return interval(c.ratio, to) if any(map(_only_just, ends)) else ""


def _only_just(end: float) -> bool:
    """Whether an end excludes 1 without saying by how much, as for one of several claims (Holm)."""
    return end != 1 and abs(end - 1) < 1e-9


def ratio_value(estimate: Estimate) -> str:
    """The ratio alone, to the digits that its interval supports; a dash if there is none."""
    if math.isnan(estimate.value):
        return NONE
    if estimate.value == 1 and estimate.low is None:  # a size compared with itself
        return "1"
    return _number(estimate.value, _ratio_digits(estimate))


def ratio_span(estimates: Sequence[Estimate]) -> str:
    """`0.98 to 1.03`: minimum and maximum, to the digits that the widest interval supports."""
    digits = min(map(_ratio_digits, estimates))
    values = [e.value for e in estimates]
    least, most = (_number(end, digits) for end in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def share(estimate: Estimate) -> str:
    """`25.2 % (23.1 to 27.3 %)`: a share with its interval; three digits if there is no interval."""
    value, low, high = estimate.value * 100, estimate.low, estimate.high
    if low is None or high is None:
        return f"{significant(round(value, 5), 3)} % (no interval)"
    low, high = low * 100, high * 100
    decimals = max(_interval_decimals(value, low, high), 0)
    value, low, high = (round(end, decimals) + 0.0 for end in (value, low, high))  # no −0
    shown, low_end, high_end = (fixed(end, decimals) for end in (value, low, high))
    return f"{shown} % ({low_end} to {high_end} %)"


def _ratio_digits(estimate: Estimate) -> int:
    """Decimals that the interval supports: two digits of its half, and no end is rounded to 1."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return min(3, 3 - exponent(estimate.value, 4))
    digits = _interval_decimals(estimate.value, low, high)
    while digits < 4 and any(
        end != 1 and not _only_just(end) and round(end, digits) == 1 for end in (low, high)
    ):
        digits += 1
    return digits


def _interval_decimals(value: float, low: float, high: float) -> int:
    """Two digits of half the interval, within the precision of a float."""
    most = MOST_DIGITS - 1 - exponent(max(map(abs, (value, low, high))), MOST_DIGITS)
    return min(_decimals((high - low) / 2), most) if high > low else min(3, most)


def _number(value: float, decimals: int) -> str:
    """These decimals, or as many more as leave two significant digits of a small value."""
    if value:
        decimals = max(decimals, 1 - exponent(value, 2))
    return fixed(round(value, decimals), decimals)


def measured(estimate: Estimate | None) -> tuple[str, str, str]:
    """The measurement with its unit, its interval and n as texts; `nothing` if nothing was measured."""
    [texts] = measured_together([estimate])
    return texts


def measured_together(estimates: Sequence[Estimate | None]) -> list[tuple[str, str, str]]:
    """The same for rows of one table that share a metric: they share the unit."""
    known = [e for e in estimates if e is not None]
    ends = [end for e in known for end in (e.value, e.low, e.high) if end is not None]
    halves = [half_width(e) for e in known for end in (e.value, e.low, e.high) if end is not None]
    unit, texts = column(ends, known[0].unit if known else "", halves)
    left = iter(texts)
    rows = []
    for e in estimates:
        if e is None:
            rows.append(("nothing", NONE, "0"))
            continue
        value = f"{next(left)} {unit}".strip()
        between = " to ".join(next(left) for end in (e.low, e.high) if end is not None)
        rows.append((value, between or NONE, str(e.n)))
    return rows


def percent(share: float) -> str:
    """`2 %`, `1.4 %`, `0.35 %`: two significant digits; `over 1000 %` beyond any meaningful value."""
    return "over 1000 %" if share > 10 else f"{significant(share * 100, 2)} %"


def span(least: float, most: float) -> str:
    """`1.4 %` or `0.5 to 17 %`."""
    low, high = percent(least), percent(most)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def runs(n: Sequence[tuple[int, int]]) -> str:
    """`4 + 4`, or `3 + 4 to 4 + 4`: runs of A and B."""
    least, most = min(n), max(n)
    text = f"{least[0]} + {least[1]}"
    return text if least == most else f"{text} to {most[0]} + {most[1]}"


def shape(text: str) -> str:
    """`2 workers × 8` for `2x8`; `2 workers` if each has one accelerator."""
    it = Shape.parse(text)
    phrase = "1 worker" if it.workers == 1 else f"{it.workers} workers"
    if it.accelerators > 1:
        phrase += f" × {it.accelerators}"
    return phrase if it.nodes is None else f"{phrase} on {it.nodes} node{'s' * (it.nodes > 1)}"


def labels(table: Mapping[str, Scalar]) -> str:
    """`size 512, dtype fp32`; payloads in binary units, like the programs' steps."""
    return ", ".join(_label(name, value) for name, value in table.items())


def _label(name: str, value: Scalar) -> str:
    phrase = name.replace("_", " ")
    if name.endswith("_bytes") and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{phrase.removesuffix(' bytes')} {binary_bytes(value)}"
    return f"{phrase} {value}"


def binary_bytes(value: float) -> str:
    """`4 MiB`, `512 B`; benchmarks step through powers of two."""
    for prefix, worth in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if value >= worth:
            return f"{significant(value / worth, 4)} {prefix}B"
    return f"{significant(value, 4)} B"


def metric(name: str) -> str:
    """`time to train` for `time_to_train`."""
    return name.replace("_", " ")


def where(point: Point, shared: Mapping[str, Scalar] | None = None) -> str:
    """`2 workers, size 512`: a point within its benchmark and metric, without what the heading says."""
    return ", ".join(filter(None, (shape(point.shape), labels(own_labels(point.labels, shared or {})))))


def shared_labels(tables: Sequence[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """The labels common to all points of a table section, shown once in its heading."""
    first, *others = tables
    return {name: value for name, value in first.items() if all(t.get(name) == value for t in others)}


def own_labels(table: Mapping[str, Scalar], shared: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A point's labels without those in its section's heading."""
    return {name: value for name, value in table.items() if name not in shared}


def distinct_doubts(comparisons: Sequence[Comparison]) -> list[tuple[Doubt, list[Comparison]]]:
    """Each doubt once by code, with the first evidence and all comparisons that it concerns."""
    by_code: dict[str, tuple[Doubt, list[Comparison]]] = {}
    for comparison in comparisons:
        for doubt in comparison.doubts:
            by_code.setdefault(doubt.code, (doubt, []))[1].append(comparison)
    return list(by_code.values())


def notes(unit: str, better: str | None, labels_: Mapping[str, Scalar]) -> str:
    """What all rows below a heading share: labels, the unit, and whether lower is better."""
    return ", ".join(filter(None, (labels(labels_), unit, "lower is better" if better == "lower" else "")))


def gathered(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items grouped by equal keys, in the order of their first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())

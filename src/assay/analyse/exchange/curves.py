"""Time and bus bandwidth of exchanges by size: the values, the line, n½, the share of the line rate.

The run is the unit of replication: each is fitted separately, and intervals are over the runs' values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from assay.analyse.exchange import fabrics
from assay.analyse.exchange.alpha_beta import Line, Misfit, fit, misfit
from assay.analyse.exchange.fabrics import Fabric
from assay.analyse.points.groups import SIZE, Group, Sample, without_size
from assay.analyse.points.ratio import mean, one_side
from assay.analyse.statistics.bands import LEAST_SIZES
from assay.records import Estimate, Point, Result, Scalar, Shape

MISFIT = 0.05  # false-alarm rate of the test whether the runs' means deviate from their lines
MOST_MISS = 0.1  # a line within this deviation of every size is accepted, however certain the deviation
DRAWN = 48  # points of a drawn line


@dataclass(frozen=True)
class ExchangePoint:
    """The measurement at one size: seconds of an exchange, bus bandwidth in bytes per second."""

    size_bytes: int
    latency: Estimate
    busbw: Estimate


@dataclass(frozen=True)
class ExchangeCurve:
    """Exchanges of one system, benchmark and setting over sizes, the smallest first.

    labels        swept parameters and the measurements' own labels, without the size
    alpha         latency, seconds; None if no line fits
    asymptote     bus bandwidth at infinite size by the line; None if no line fits
    half          size in bytes at which half of the bandwidth is reached
    half_by       of the asymptote by the `line`, or of the largest measured between `sizes`; "" unknown
    drawn         the line: size in bytes, bus bandwidth with its interval; empty if none fits
    why_no_line   as text; "" if there is a line
    misfit        of the runs' lines, fitting or not; None if runs have none
    line_rate     of the slowest node's network; None if it is unknown or not the limit
    of_line_rate  largest measured bus bandwidth divided by it
    """

    system: str
    benchmark: str
    shape: str
    labels: Mapping[str, Scalar]
    points: tuple[ExchangePoint, ...]
    alpha: Estimate | None
    asymptote: Estimate | None
    half: Estimate | None
    half_by: Literal["line", "sizes", ""]
    drawn: tuple[tuple[float, Estimate], ...]
    why_no_line: str
    misfit: Misfit | None
    line_rate: Fabric | None
    of_line_rate: Estimate | None


@dataclass(frozen=True)
class _Run:
    """One run's values by size: seconds, and bus bandwidth in bytes per second."""

    result: Result
    seconds: Mapping[int, float]
    busbw: Mapping[int, float]

    @property
    def bus(self) -> float:
        """Bus bandwidth divided by algorithm bandwidth: the operation's factor, the same at all sizes."""
        return mean([self.busbw[size] * self.seconds[size] / size for size in self.busbw])


def exchange_curves(system: str, groups: Iterable[Group]) -> list[ExchangeCurve]:
    """Every curve over at least four sizes that one system's points have, in their order."""
    return [curve for sizes in _by_curve(groups) if (curve := _curve(system, sizes)) is not None]


_Sizes = dict[int, dict[str, Group]]  # size → metric → runs


def _by_curve(groups: Iterable[Group]) -> Iterator[_Sizes]:
    curves: dict[tuple[str, str, str], _Sizes] = {}
    units = {"latency": "s", "busbw": "B/s"}
    for group in groups:
        point = group.point
        size = point.labels.get(SIZE)
        if point.metric in units and isinstance(size, int) and min(group.values) > 0:
            setting = repr(sorted(without_size(point.labels).items()))
            curve = curves.setdefault((point.benchmark, point.shape, setting), {})
            curve.setdefault(size, {})[point.metric] = group.in_unit(units[point.metric])
    for curve in curves.values():
        whole = {size: by_metric for size, by_metric in sorted(curve.items()) if len(by_metric) == len(units)}
        if len(whole) >= LEAST_SIZES:
            yield whole


def _curve(system: str, sizes: _Sizes) -> ExchangeCurve | None:
    points = tuple(
        ExchangePoint(size, one_side(by_metric["latency"]), one_side(by_metric["busbw"]))
        for size, by_metric in sizes.items()
    )
    runs = _runs(sizes)
    if not runs:
        return None
    lines = [line for run in runs if (line := fit(run.seconds)) is not None]
    off = _misfit(runs, lines)
    why = _why_no_line(runs, lines, off)
    point = next(iter(sizes.values()))["latency"].point
    curve = ExchangeCurve(
        system, point.benchmark, point.shape, without_size(point.labels), points,
        None, None, None, "", (), why, off, *_of_line_rate(runs, sizes),
    )  # fmt: skip
    return _with_half_measured(curve, runs) if why else _with_line(curve, runs, lines)


def _runs(sizes: _Sizes) -> list[_Run]:
    """The runs that have at least four sizes."""
    results: dict[str, Result] = {}
    values_by_metric: dict[str, dict[str, dict[int, float]]] = {"latency": {}, "busbw": {}}
    for size, by_metric in sizes.items():
        for metric, by_run in values_by_metric.items():
            for sample in by_metric[metric].samples:
                results[sample.result.run.id] = sample.result
                by_run.setdefault(sample.result.run.id, {})[size] = sample.value
    runs = []
    for run, result in results.items():
        seconds, busbw = (by_run.get(run, {}) for by_run in values_by_metric.values())
        both = [size for size in seconds if size in busbw]
        if len(both) >= LEAST_SIZES:
            runs.append(_Run(result, {n: seconds[n] for n in both}, {n: busbw[n] for n in both}))
    return runs


def _misfit(runs: Sequence[_Run], lines: Sequence[Line]) -> Misfit | None:
    """None if a run has no line, or the runs have too few sizes in common."""
    common = set.intersection(*(set(run.seconds) for run in runs))
    return misfit(lines) if len(lines) == len(runs) and len(common) >= LEAST_SIZES else None


def _why_no_line(runs: Sequence[_Run], lines: Sequence[Line], off: Misfit | None) -> str:
    if len(lines) < len(runs):
        return (
            f"in {len(runs) - len(lines)} of {len(runs)} runs the sizes don't show both a latency and a "
            "bandwidth"
        )
    surely = off is not None and off.probability is not None and off.probability < MISFIT
    if off is not None and surely and abs(off.share) > MOST_MISS:
        return "no line fits all sizes"
    return ""


def _with_line(curve: ExchangeCurve, runs: Sequence[_Run], lines: Sequence[Line]) -> ExchangeCurve:
    def over_runs(values: Iterable[float], unit: str) -> Estimate:
        return _over_runs(curve, runs, values, unit)

    least, most = (math.log(curve.points[index].size_bytes) for index in (0, -1))
    grid = [math.exp(least + (most - least) * index / (DRAWN - 1)) for index in range(DRAWN)]
    both = list(zip(runs, lines, strict=True))
    return replace(
        curve,
        alpha=over_runs((line.alpha_s for line in lines), "s"),
        asymptote=over_runs((run.bus / line.beta_s for run, line in both), "B/s"),
        half=over_runs((line.half_bytes for line in lines), "B"),
        half_by="line",
        drawn=tuple(
            (n, over_runs((run.bus * n / line.seconds(n) for run, line in both), "B/s")) for n in grid
        ),
    )


def _with_half_measured(curve: ExchangeCurve, runs: Sequence[_Run]) -> ExchangeCurve:
    halves = [_half_measured(run.busbw) for run in runs]
    known = [half for half in halves if half is not None]
    if len(known) < len(runs):
        return curve
    return replace(curve, half=_over_runs(curve, runs, known, "B"), half_by="sizes")


def _half_measured(busbw: Mapping[int, float]) -> float | None:
    """The size after which more than half of the largest is always reached; None if it always is.

    Between two sizes it follows a power law through both.
    """
    sizes, half = sorted(busbw), max(busbw.values()) / 2
    for below, above in reversed(list(pairwise(sizes))):
        if busbw[below] < half <= busbw[above]:
            part = math.log(half / busbw[below]) / math.log(busbw[above] / busbw[below])
            return below * math.pow(above / below, part)
    return None


def _over_runs(curve: ExchangeCurve, runs: Sequence[_Run], values: Iterable[float], unit: str) -> Estimate:
    """Geometric mean with its interval, which allows for interim looks like any other."""
    samples = tuple(Sample(run.result, value) for run, value in zip(runs, values, strict=True))
    point = Point(curve.benchmark, curve.shape, "", unit, None, curve.labels)
    return one_side(Group(point, samples))


def _of_line_rate(runs: Sequence[_Run], sizes: _Sizes) -> tuple[Fabric | None, Estimate | None]:
    """The capacity of the slowest node's network, and the share of it that bus bandwidth reached.

    Only between nodes; and not for all-to-all with several ranks per node, whose bus bandwidth is not what
    leaves a node.
    """
    fabric = _slowest_fabric(runs)
    shape = Shape.parse(next(iter(sizes.values()))["busbw"].point.shape)
    nodes = {len(run.result.provenance.nodes) for run in runs if run.result.provenance is not None}
    several = any(shape.ranks > count for count in nodes)
    if fabric is None or (several and _operation(runs[0].result) == "alltoall"):
        return None, None
    best = max(
        (one_side(by_metric["busbw"]) for by_metric in sizes.values()), key=lambda estimate: estimate.value
    )
    rate = fabric.bytes_per_s
    low, high = (None if end is None else end / rate for end in (best.low, best.high))
    return fabric, replace(best, value=best.value / rate, low=low, high=high, unit="")


def _slowest_fabric(runs: Sequence[_Run]) -> Fabric | None:
    """The slowest of all nodes of all runs; None for one node, or if any node's is unknown."""
    tables = [run.result.provenance.nodes if run.result.provenance is not None else () for run in runs]
    if not all(len(nodes) > 1 for nodes in tables):
        return None
    per_node = [fabrics.of_node(node) for nodes in tables for node in nodes]
    known = [fabric for fabric in per_node if fabric is not None]
    return min(known, key=lambda fabric: fabric.bytes_per_s) if len(known) == len(per_node) else None


def _operation(result: Result) -> Scalar | None:
    return result.reading.facts.get("operation", result.run.trial.params.get("operation"))

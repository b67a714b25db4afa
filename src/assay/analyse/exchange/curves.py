"""Time of an exchange by size as t(n) = α + n·β: a latency and the time per byte, fitted to one run.

Errors are relative (a microsecond of ten counts as much as a millisecond of ten), so logarithms are fitted;
and robust: a disturbed size has less weight, by Huber's weights. Sources: for the model, Hockney, Parallel
Computing 20 (1994) 389-398, whose n½ = α/β is the size at which half of 1/β is reached; for the weights,
Huber, Annals of Mathematical Statistics 35 (1964) 73-101.

Protocols that change with the size bend the curve, and then no such line fits. Each run is fitted separately,
so that errors common to its sizes don't make the results look more certain; `misfit` compares the runs' means
with their lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

from assay.analyse.exchange import fabrics
from assay.analyse.exchange.fabrics import Fabric
from assay.analyse.points.groups import SIZE, Group, Sample, without_size
from assay.analyse.points.ratio import mean, one_side
from assay.analyse.statistics.bands import LEAST_SIZES
from assay.records import Estimate, Point, Result, Scalar, Shape

LEAST_OF_LINE: Final = 4
_HUBER: Final = 1.345  # standard deviations: 95 % as efficient as least squares without disturbances
_STEPS: Final = 100
_EXACT: Final = 1e-9  # of a logarithm
Array = Any  # a numpy array; numpy itself is imported where it is used


@dataclass(frozen=True)
class CostLine:
    """α in seconds and β in seconds per byte, both above 0.

    residuals  log of measured over fitted time, by size in bytes
    """

    alpha_s: float
    beta_s: float
    residuals: Mapping[int, float]

    @property
    def half_bytes(self) -> float:
        """n½: the size at which half of the asymptotic bandwidth is reached."""
        return self.alpha_s / self.beta_s

    def seconds(self, size_bytes: float) -> float:
        """Time of one exchange.

        >>> CostLine(1e-5, 1e-9, {}).seconds(10_000)
        2e-05
        """
        return self.alpha_s + size_bytes * self.beta_s


def fit(seconds: Mapping[int, float]) -> CostLine | None:
    """The line of one run; None for fewer than four sizes, or if it is at the edge of what they show.

    seconds  size in bytes → seconds, all above 0

    Only short sizes show no bandwidth, and only long ones no latency: n½ has to be between
    the smallest and the largest.
    """
    import numpy as np

    if len(seconds) < LEAST_OF_LINE:
        return None
    sizes = np.array(sorted(seconds), dtype=float)
    logs = np.log([seconds[int(n)] for n in sizes])
    log_parameters = _fitted(sizes, logs)
    residuals = logs - _log_time(sizes, log_parameters)
    alpha, beta = np.exp(log_parameters)
    line = CostLine(float(alpha), float(beta), dict(zip(map(int, sizes), map(float, residuals), strict=True)))
    return line if sizes[0] <= line.half_bytes <= sizes[-1] else None


def _log_time(sizes: Array, log_parameters: Array) -> Array:
    import numpy as np

    return np.logaddexp(log_parameters[0], log_parameters[1] + np.log(sizes))


def _fitted(sizes: Array, logs: Array) -> Array:
    """Logarithms of α and β by Gauss–Newton on reweighted squares, each step halved until it helps."""
    import numpy as np

    log_parameters = np.array([logs.min(), logs[-1] - np.log(sizes[-1])])
    for _ in range(_STEPS):
        rest = logs - _log_time(sizes, log_parameters)
        root = np.sqrt(_weights(rest))
        latency = np.exp(log_parameters[0] - _log_time(sizes, log_parameters))  # share of α in the time
        slopes = np.stack([latency, 1 - latency], axis=1)
        step = np.linalg.lstsq(slopes * root[:, None], rest * root, rcond=None)[0]
        step = np.clip(step, -1, 1)
        before = float(np.sum((rest * root) ** 2))
        for _ in range(12):
            if np.sum((root * (logs - _log_time(sizes, log_parameters + step))) ** 2) <= before:
                break
            step = step / 2
        log_parameters = log_parameters + step
        if np.abs(step).max() < _EXACT:
            break
    return log_parameters


def _weights(rest: Array) -> Array:
    """Huber's, by the median size of the residuals."""
    import numpy as np

    spread = 1.4826 * float(np.median(np.abs(rest)))
    size = np.abs(rest)
    return np.where(size > _HUBER * spread, _HUBER * spread / np.maximum(size, _EXACT), 1.0)


@dataclass(frozen=True)
class Misfit:
    """How far sizes deviate from the lines of their runs.

    size_bytes   with the largest deviation, in the mean of the runs
    share        how far: measured over fitted − 1
    probability  of deviations this large overall, if the lines were true; None for a single run
    """

    size_bytes: int
    share: float
    probability: float | None


def misfit(lines: Sequence[CostLine]) -> Misfit:
    """The common part of the runs' deviations from their lines, compared with the individual part.

    The ratio of the two variances has an F distribution if they scatter alike at all sizes. Sizes that a run
    lacks are left out. Raises ValueError if no size is common.
    """
    import numpy as np
    from scipy.special import fdtrc

    common = sorted(set.intersection(*(set(line.residuals) for line in lines)))
    table = np.array([[line.residuals[size] for size in common] for line in lines])
    mean = table.mean(axis=0)
    worst = int(np.argmax(np.abs(mean)))
    runs, free = len(lines), len(common) - 2
    scatter = float(np.sum((table - mean) ** 2))
    probability = None
    if runs > 1 and free > 0 and scatter > _EXACT**2:
        ratio = (runs * float(np.sum(mean**2)) / free) / (scatter / ((runs - 1) * free))
        probability = float(fdtrc(free, (runs - 1) * free, ratio))
    return Misfit(common[worst], math.expm1(float(mean[worst])), probability)


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


def _misfit(runs: Sequence[_Run], lines: Sequence[CostLine]) -> Misfit | None:
    """None if a run has no line, or the runs have too few sizes in common."""
    common = set.intersection(*(set(run.seconds) for run in runs))
    return misfit(lines) if len(lines) == len(runs) and len(common) >= LEAST_SIZES else None


def _why_no_line(runs: Sequence[_Run], lines: Sequence[CostLine], off: Misfit | None) -> str:
    if len(lines) < len(runs):
        return (
            f"in {len(runs) - len(lines)} of {len(runs)} runs the sizes don't show both a latency and a "
            "bandwidth"
        )
    surely = off is not None and off.probability is not None and off.probability < MISFIT
    if off is not None and surely and abs(off.share) > MOST_MISS:
        return "no line fits all sizes"
    return ""


def _with_line(curve: ExchangeCurve, runs: Sequence[_Run], lines: Sequence[CostLine]) -> ExchangeCurve:
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

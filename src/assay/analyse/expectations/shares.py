"""Measurements compared with what the hardware can do at most, and with published results.

MFU = FLOPs per sample × samples per second / (peak FLOP/s × accelerators), the model FLOPs utilization of
Chowdhery et al., PaLM (2022), appendix B: operations that the model needs, not those that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from assay.analyse.exchange import fabrics
from assay.analyse.expectations.references import Accelerator, PublishedFigure, matching, of_name, workload_of
from assay.analyse.points.groups import Group
from assay.analyse.points.ratio import one_side, scaled
from assay.records import Estimate, Point, Result, Run, Scalar, Shape
from assay.units import factor

Flops = Callable[[Run], float | None]
"""FLOPs per sample of the run's workload; None if unknown."""
Kind = Literal["mfu", "arithmetic", "memory-bandwidth", "line-rate"]
Verdict = Literal["below", "within", "above"]
IN_16_BITS = frozenset({"resnet", "ssd", "retinanet", "maskrcnn", "unet3d"})


@dataclass(frozen=True)
class PublishedRange:
    """Published results on the same accelerators, in the metric's base unit.

    each     the values are per accelerator
    verdict  of the whole interval: below or above every published value, else within them
    """

    low: float
    high: float
    each: bool
    verdict: Verdict
    references: tuple[PublishedFigure, ...]


@dataclass(frozen=True)
class Usage:
    """The share of the hardware's maximum that a measurement reaches.

    share   None if the maximum is unknown; `why` then says what is missing
    peak    the maximum, in the metric's base unit, over all accelerators or nodes; `of` says of what
    normal  None if nothing is published
    """

    system: str
    point: Point
    kind: Kind
    share: Estimate | None
    peak: float | None
    of: str
    source: str
    why: str
    normal: PublishedRange | None


def mfu(flops_per_sample: float, samples_per_s: float, peak_flop_per_s: float, accelerators: int) -> float:
    """Model FLOPs utilization, 0 to 1.

    peak_flop_per_s  dense, per accelerator, in the number format that was used

    >>> round(mfu(24.3e9, 7096, 125e12, 8), 3)
    0.172
    """
    return flops_per_sample * samples_per_s / (peak_flop_per_s * accelerators)


def usage(points: Mapping[str, Iterable[Group]], flops: Flops) -> tuple[Usage, ...]:
    """Every measurement that has a physical limit, compared with it; a bandwidth only at its largest payload.

    points  system → its points
    """
    usages = [
        compared
        for system, groups in points.items()
        for of_point in groups
        if (compared := of_group(system, of_point, flops)) is not None
    ]
    return tuple(_largest_payloads(usages))


def of_group(system: str, group: Group, flops: Flops) -> Usage | None:
    """The runs at one point compared with the limit; None if the metric has no limit."""
    run = group.samples[0].result.run
    kind = _kind(group.point, flops(run))
    if kind is None or min(group.values) <= 0:
        return None
    most = _most(kind, group, flops(run))
    up, base = factor(group.point.unit)
    value = one_side(group)
    value = scaled(value, up, base)
    normal = _normal(group, value)
    if isinstance(most, str):
        return Usage(system, group.point, kind, None, None, "", "", most, normal)
    share = scaled(value, most.per_unit / most.peak, "")
    return Usage(
        system, group.point, kind, share, most.peak / most.per_unit, most.hardware, most.source, "", normal
    )


def _kind(point: Point, flops_per_sample: float | None) -> Kind | None:
    base = factor(point.unit)[1]
    if point.metric == "throughput" and flops_per_sample is not None and base.endswith("/s"):
        return "mfu"
    if point.metric == "flop_rate":
        return "arithmetic"
    if point.metric == "bandwidth":
        return "memory-bandwidth"
    return "line-rate" if point.metric == "busbw" else None


@dataclass(frozen=True)
class _Peak:
    """A limit: `peak` operations or bytes per second; a unit of the measurement takes `per_unit` of them."""

    peak: float
    per_unit: float
    hardware: str
    source: str


def _most(kind: Kind, group: Group, flops_per_sample: float | None) -> _Peak | str:
    """The limit to compare the measurement with, or why it is unknown, as text."""
    if kind == "line-rate":
        return _line_rate(group)
    name = accelerator_name(group.samples[0].result)
    if name is None:
        return "the peak of a CPU, or of an unnamed accelerator, is unknown"
    device = of_name(name)
    if device is None:
        return f"the peak of {name} is unknown"
    ranks = group.ranks
    if kind == "memory-bandwidth":
        return _Peak(device.memory_bytes_per_s * ranks, 1.0, f"{ranks} × {name}", device.source)
    chosen, assumed = _format(group, device, kind)
    peak = device.peak_flop_per_s.get(chosen)
    if peak is None:
        return f"the peak of {name} is unknown for {chosen or 'an unstated number format'}"
    hardware = f"{ranks} × {name}, {chosen} {peak / 1e12:g} TFLOP/s each"
    hardware += ", assumed: the log states no number format" if assumed else ""
    return _Peak(peak * ranks, flops_per_sample or 1.0, hardware, device.source)


def _format(group: Group, device: Accelerator, kind: Kind) -> tuple[str, bool]:
    """The number format that the arithmetic used, and whether it is only assumed.

    A training in fp32 may use TF32 if the device has it (PyTorch's convolutions do by default), so it is
    compared with that: the larger peak, which doesn't flatter the result.
    """
    chosen, assumed = arithmetic_of(group)
    tf32 = kind == "mfu" and chosen == "fp32" and "tf32" in device.peak_flop_per_s
    return "tf32" if tf32 else chosen, assumed


def arithmetic_of(group: Group) -> tuple[str, bool]:
    """The number format, and whether it is only assumed; "" if it is neither stated nor safe to assume.

    MLPerf's image benchmarks are trained in 16 bits on every accelerator that supports it; language models
    may be trained in 8 bits.
    """
    stated = number_format(group)
    training = group.samples[0].result.reading.training
    if stated or training is None or training.benchmark not in IN_16_BITS:
        return stated, False
    return "fp16", True


def number_format(group: Group) -> str:
    """The number format that label, program or parameters state: `bf16`; "" if none does."""
    result = group.samples[0].result
    tables: tuple[Mapping[str, object], ...] = (
        group.point.labels,
        result.reading.facts,
        result.run.trial.params,
    )
    for table in tables:
        for name in ("dtype", "precision"):
            if isinstance(table.get(name), str):
                return str(table[name])
    return ""


def accelerator_name(result: Result) -> str | None:
    """The accelerator's name from the program, the probe or the system's description; None for a CPU."""
    facts = result.reading.facts
    if facts.get("device") == "cpu":
        return None
    nodes: tuple[Mapping[str, Scalar], ...] = result.provenance.nodes if result.provenance else ()
    named = [facts.get("device_name")]
    named += [node.get(key) for node in nodes for key in ("gpu.0.name", "mlperf.accelerator_model_name")]
    return next((name for name in named if isinstance(name, str) and name), None)


def _line_rate(group: Group) -> _Peak | str:
    """What leaves a node: with k nodes, each sends at least 2(k−1)/k of the payload, however many ranks."""
    shape = Shape.parse(group.point.shape)
    provenance = group.samples[0].result.provenance
    nodes = provenance.nodes if provenance else ()
    k = shape.nodes or len(nodes)
    if k < 2:
        return "within one node, nothing crosses the fabric"
    rates = [fabric for node in nodes if (fabric := fabrics.of_node(node)) is not None]
    if not rates:
        return "no node reports the speed of its network"
    slowest = min(rates, key=lambda fabric: fabric.bytes_per_s)
    n = shape.ranks
    crossing = (2 * (k - 1) / k) / (2 * (n - 1) / n)
    return _Peak(slowest.bytes_per_s, crossing, f"{slowest.ports} per node", "the ports' rates in /sys")


def _normal(group: Group, value: Estimate) -> PublishedRange | None:
    result = group.samples[0].result
    name, shape = accelerator_name(result), Shape.parse(group.point.shape)
    if name is None:
        return None
    nodes = shape.nodes or (len(result.provenance.nodes) if result.provenance else None)
    known = matching(
        workload_of(result), group.point.metric, name, arithmetic_of(group)[0], shape.ranks, nodes
    )
    if not known:
        return None
    each = known[0].nodes is None
    figures = [r.each if each else r.value for r in known]
    by = 1 / shape.ranks if each else 1.0
    low, high = (value.low or value.value) * by, (value.high or value.value) * by
    verdict: Verdict = "below" if high < min(figures) else "above" if low > max(figures) else "within"
    return PublishedRange(min(figures), max(figures), each, verdict, known)


def _largest_payloads(usages: Iterable[Usage]) -> Iterable[Usage]:
    largest: dict[tuple[str, str, str], float] = {}
    kept = list(usages)
    for measurement in kept:
        if measurement.kind == "line-rate":
            key = (measurement.system, measurement.point.benchmark, measurement.point.shape)
            largest[key] = max(largest.get(key, 0.0), _payload(measurement))
    return [
        measurement
        for measurement in kept
        if measurement.kind != "line-rate"
        or _payload(measurement)
        == largest[measurement.system, measurement.point.benchmark, measurement.point.shape]
    ]


def _payload(measurement: Usage) -> float:
    size = measurement.point.labels.get("payload_bytes")
    return float(size) if isinstance(size, int | float) else 0.0

"""How much of a step the gradient exchange can take, from an all-reduce of the same sessions."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.points.groups import Group, Sample
from assay.analyse.points.ratio import mean, one_side, ratio
from assay.analyse.points.replication import Session, session_of
from assay.records import Estimate, Measurement, Point, Result, Scaling, ScalingPoint, Shape
from assay.units import convert

_SAME_ON_BOTH = ("backend", "device")  # facts: an exchange over another backend is a different exchange


@dataclass(frozen=True)
class Communication:
    """One all-reduce of a step's gradients at one size, compared with the step and with what the step lost.

    shape, base     the size, and the smallest size of the curve
    gradient_bytes  that the ranks add up in every step
    measured_bytes  the largest payload whose exchange was timed
    exchange        seconds that one exchange of the gradients takes when nothing else runs
    extrapolated    the gradients are larger than any payload: their time uses the largest one's bandwidth
    step            seconds of a training step
    share           exchange over step. Backward passes overlap with the exchange, which hides part of it;
                    computation on the same cores or memory can slow it down, which is not included
    lost            share of the step above what the smallest size's rate would need; None at that size
    explained       share over lost, at most 1: the largest part of the loss that communication can explain,
                    unless computation slows it down; None if the runs can't distinguish the loss from zero
    """

    shape: str
    base: str
    gradient_bytes: int
    measured_bytes: int
    exchange: Estimate
    extrapolated: bool
    step: Estimate
    share: Estimate
    lost: Estimate | None
    explained: float | None


def exchange_s(latency_s: Mapping[int, float], payload_bytes: float) -> float | None:
    """Seconds of one all-reduce of a payload, from those of other payloads; None below the smallest.

    latency_s  payload in bytes → seconds, above 0

    Between two payloads it follows a power law through both; beyond the largest it has that one's bandwidth.

    >>> exchange_s({10**6: 0.001, 10**8: 0.064}, 10**7)
    0.008
    >>> exchange_s({10**6: 0.001, 10**8: 0.05}, 2 * 10**8)
    0.1
    """
    sizes = sorted(latency_s)
    if not sizes or payload_bytes < sizes[0]:
        return None
    if payload_bytes > sizes[-1]:
        return latency_s[sizes[-1]] * payload_bytes / sizes[-1]
    above = sizes[bisect_left(sizes, payload_bytes)]
    if above == payload_bytes:
        return latency_s[above]
    below = sizes[bisect_left(sizes, payload_bytes) - 1]
    part = math.log(payload_bytes / below) / math.log(above / below)
    return latency_s[below] * math.pow(latency_s[above] / latency_s[below], part)


def of_curve(groups: Sequence[Group], scaling: Scaling, results: Iterable[Result]) -> Iterator[Communication]:
    """Each size of a training at which an all-reduce was measured, too.

    groups   of the training's curve, a size each
    scaling  of the same curve, for the efficiencies
    results  containing all-reduces: those count that ran in the training's sessions, on its system, in its
             shape, over its backend
    """
    exchanges = [r for r in results if r.run.trial.workload == "allreduce"]
    for group, point in zip(groups, scaling.points, strict=True):
        if exchanges and point.ranks > 1:
            yield from _at(group, point, scaling.points[0], exchanges)


@dataclass(frozen=True)
class GradientExchange:
    """Steps of a training, and exchanges of as many bytes as its gradients have, in the same sessions."""

    gradient_bytes: int
    measured_bytes: int
    step: Group
    exchange: Group


def measured(group: Group, results: Iterable[Result]) -> GradientExchange | None:
    """The time of a training step, and of one gradient exchange; None if no exchange was timed.

    results  containing all-reduces, of which those count that `of_curve` counts
    """
    gradient_bytes = _gradient_bytes(group)
    steps = [step for s in group.samples if (step := _step(s.result)) is not None]
    if gradient_bytes is None or not steps:
        return None
    trained = _where(s.result for s in steps)
    of_place = [
        r for r in results if r.run.trial.workload == "allreduce" and r.counts and _where([r]) <= trained
    ]
    exchanges, measured_bytes = _exchanges(of_place, gradient_bytes)
    sessions = {session_of(s) for s in exchanges} & {session_of(s) for s in steps}
    if not sessions:
        return None
    return GradientExchange(
        gradient_bytes,
        measured_bytes,
        _group(group.point, "step_time", steps, sessions),
        _group(group.point, "exchange", exchanges, sessions),
    )


def _at(
    group: Group, point: ScalingPoint, base: ScalingPoint, exchanges: Sequence[Result]
) -> Iterator[Communication]:
    gradient_exchange = measured(group, exchanges)
    if gradient_exchange is None:
        return
    share = ratio(gradient_exchange.step, gradient_exchange.exchange).estimate
    lost = None if point is base else _lost(point.efficiency)
    loss_is_certain = lost is not None and lost.low is not None and lost.low > 0
    yield Communication(
        shape=point.shape,
        base=base.shape,
        gradient_bytes=gradient_exchange.gradient_bytes,
        measured_bytes=gradient_exchange.measured_bytes,
        exchange=one_side(gradient_exchange.exchange),
        extrapolated=gradient_exchange.gradient_bytes > gradient_exchange.measured_bytes,
        step=one_side(gradient_exchange.step),
        share=share,
        lost=lost,
        explained=min(1.0, share.value / lost.value) if lost is not None and loss_is_certain else None,
    )


def _gradient_bytes(group: Group) -> int | None:
    """What all runs state identically; None if they state nothing, or differ."""
    stated = {s.result.reading.facts.get("gradient_bytes") for s in group.samples}
    gradient_bytes = stated.pop() if len(stated) == 1 else None
    return (
        gradient_bytes
        if isinstance(gradient_bytes, int) and not isinstance(gradient_bytes, bool) and gradient_bytes > 0
        else None
    )


def _where(results: Iterable[Result]) -> set[tuple[str, Session, Shape, tuple[object, ...]]]:
    """Systems, sessions, shapes and backends."""
    return {
        (
            r.run.trial.system,
            (r.run.suite, r.run.session),
            r.run.trial.shape,
            tuple(r.reading.facts.get(name) for name in _SAME_ON_BOTH),
        )
        for r in results
    }


def _step(result: Result) -> Sample | None:
    times = [_seconds(m) for m in result.reading.measurements if m.metric == "step_time"]
    return Sample(result, times[0]) if len(times) == 1 and times[0] > 0 else None


def _seconds(measurement: Measurement) -> float:
    return convert(measurement.value, measurement.unit, "s")


def _exchanges(results: Iterable[Result], payload_bytes: int) -> tuple[list[Sample], int]:
    """Time of the exchange in each run of one benchmark, and that benchmark's largest payload.

    Of several benchmarks, the one with the nearest payload: it needs the least extrapolation.
    """
    by_trial: dict[str, list[tuple[Sample, int]]] = {}
    for result in results:
        latency_s = _latencies(result)
        time_s = exchange_s(latency_s, payload_bytes)
        if time_s is not None:
            timed = Sample(result, time_s), max(latency_s)
            by_trial.setdefault(result.run.trial.digest, []).append(timed)
    if not by_trial:
        return [], 0
    chosen = max(by_trial.values(), key=lambda runs: min(runs[0][1], payload_bytes))
    return [sample for sample, _ in chosen], min(most for _, most in chosen)


def _latencies(result: Result) -> dict[int, float]:
    """Seconds by payload, above 0; the mean of what was printed for one payload."""
    times_by_size: dict[int, list[float]] = {}
    for measurement in result.reading.measurements:
        size = measurement.labels.get("payload_bytes")
        if measurement.metric == "latency" and isinstance(size, int) and measurement.value > 0:
            times_by_size.setdefault(size, []).append(_seconds(measurement))
    return {size: mean(times) for size, times in times_by_size.items()}


def _group(point: Point, metric: str, samples: Sequence[Sample], sessions: set[Session]) -> Group:
    inside = tuple(s for s in samples if session_of(s) in sessions)
    return Group(replace(point, metric=metric, unit="s", better="lower"), inside)


def _lost(efficiency: Estimate) -> Estimate:
    """What is missing compared with ideal scaling, as a share of the step."""
    low, high = (None if end is None else 1 - end for end in (efficiency.high, efficiency.low))
    return replace(efficiency, value=1 - efficiency.value, low=low, high=high)

"""Observations that can explain why one of two sides is slower: where its ranks ran, and what affected them.

A reason accompanies a verdict and never changes it. It states what differs between the sides and costs
time, in the units of the measurement; problems that affected the slower side no more are listed by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse.points import encounters
from assay.analyse.points.groups import Group, Sample, probed
from assay.analyse.points.ratio import one_side
from assay.records import NodeCounts, Point, Result, Shape
from assay.units import counted, human, listed, percent

_TROUBLES: Final[tuple[tuple[str, str, Callable[[NodeCounts], float | None]], ...]] = (
    ("a CPU quota stopped it for {} of its CPU time", "stops by a CPU quota", encounters.throttled_share),
    ("other processes contended for {} of the CPU time", "other processes", encounters.neighbours_share),
    ("the host stole {} of its CPU time", "CPU time stolen by the host", encounters.stolen_share),
    ("its CPUs were thermally throttled for {} of the time", "heat", encounters.heat_share),
    ("it waited for swapped memory {} of the time", "swapping", encounters.swap_share),
)


@dataclass(frozen=True)
class Reasons:
    """Reasons as text, without a period; and what was counted on both sides and explains nothing."""

    reasons: tuple[str, ...]
    ruled_out: tuple[str, ...]


def why(
    a: Sequence[Result], b: Sequence[Result], point: Point, *, names: tuple[str, str], margin: float
) -> Reasons:
    """Why `b` can be slower than `a` at a point.

    a, b    all runs of each side, of every benchmark: an exchange measured on its own explains other
    benchmarks
    point   whose benchmark and shape are meant, whatever its metric
    margin  a problem whose extra cost on b is less than half of it explains nothing
    """
    sides = _Pair(names, a, b, _at(a, point), _at(b, point), point)
    reasons = [*_places(sides), *_exchange(sides), *_allowed(sides)]
    ruled_out = []
    for template, name, share in _TROUBLES:
        mean_a, mean_b = _mean(sides.here_a, share), _mean(sides.here_b, share)
        if mean_a is None or mean_b is None:
            continue
        if mean_b - mean_a > margin / 2:
            reasons.append(
                f"{template.format(percent(mean_b))}, compared with {percent(mean_a)} on {names[0]}"
            )
        else:
            ruled_out.append(name)
    return Reasons(tuple(reasons), tuple(ruled_out))


@dataclass(frozen=True)
class _Pair:
    names: tuple[str, str]
    all_a: Sequence[Result]
    all_b: Sequence[Result]
    here_a: Sequence[Result]
    here_b: Sequence[Result]
    point: Point


def _at(results: Sequence[Result], point: Point) -> list[Result]:
    """Its runs there, or those with the same number of ranks if they have other workers."""
    of_benchmark = [r for r in results if r.counts and r.run.trial.benchmark == point.benchmark]
    there = [r for r in of_benchmark if str(r.run.trial.shape) == point.shape]
    return there or [r for r in of_benchmark if r.run.trial.shape.ranks == Shape.parse(point.shape).ranks]


def _places(sides: _Pair) -> Iterator[str]:
    """Ranks that exchange with each other, in more places than on the other side."""
    a, b = (_first_probed(here) for here in (sides.here_a, sides.here_b))
    if a is None or b is None or "backend" not in b.reading.facts or b.run.trial.shape.ranks < 2:
        return
    here, there = (len(probed(result)) for result in (a, b))
    if there > here:
        ranks = b.run.trial.shape.ranks
        yield (
            f"its {ranks} ranks run in {_described(b)}, those of {sides.names[0]} "
            f"{'together on one node' if here == 1 else f'in {_described(a)}'}"
        )


def _described(result: Result) -> str:
    """`2 pods on node1, node2, which are one machine, and communicate over eth0 (MTU 1500 B)`."""
    tables = probed(result)
    pods = all("kubernetes.pod" in table for table in tables)
    nodes = sorted({str(table.get("kubernetes.node", table.get("host"))) for table in tables})
    machines = {table.get("boot_id") for table in tables}
    description = counted(len(tables), "pod" if pods else "node")
    description += f" on {listed(nodes)}" if pods else f" ({listed(nodes)})"
    if len(nodes) > 1 and len(machines) == 1 and None not in machines:
        description += ", which are one machine,"
    ports = {
        (name.split(".")[1], table[name])
        for table in tables
        for name in table
        if name.startswith("net.") and name.endswith(".mtu_bytes")
    }
    if len(ports) == 1:
        ((port, mtu),) = ports
        description += f" and communicate over {port} (MTU {mtu} B)"
    return description.removesuffix(",")


def _first_probed(results: Sequence[Result]) -> Result | None:
    return next((result for result in results if probed(result)), None)


def _exchange(sides: _Pair) -> Iterator[str]:
    """A gradient exchange that takes longer, compared with how much longer a step takes."""
    from assay.analyse.exchange import communication

    a, b = (
        communication.measured(_group(sides.point, here), every)
        for here, every in ((sides.here_a, sides.all_a), (sides.here_b, sides.all_b))
    )
    if a is None or b is None:
        return
    exchange_a, exchange_b = (one_side(side.exchange).value for side in (a, b))
    longer_s = one_side(b.step).value - one_side(a.step).value
    if exchange_b > exchange_a and longer_s > 0:
        yield (
            f"one exchange of its {human(float(b.gradient_bytes), 'B')} of gradients, measured on its own, "
            f"takes {human(exchange_b, 's')}, and {human(exchange_a, 's')} on {sides.names[0]}: "
            f"{human(exchange_b - exchange_a, 's')} more, while a step takes {human(longer_s, 's')} longer"
        )


def _group(point: Point, results: Sequence[Result]) -> Group:
    return Group(replace(point, labels={}), tuple(Sample(result, 1.0) for result in results))


def _allowed(sides: _Pair) -> Iterator[str]:
    """Fewer CPUs than on the other side, or a quota that is lower or only on this side."""
    cpus_a, cpus_b = (_least(here, "cpu.allowed") for here in (sides.here_a, sides.here_b))
    if cpus_a is not None and cpus_b is not None and cpus_b < cpus_a:
        yield f"it may use {counted(int(cpus_b), 'CPU')}, {sides.names[0]} {cpus_a:g}"
    quota_a, quota_b = (_least(here, "cpu.quota") for here in (sides.here_a, sides.here_b))
    if quota_b is not None and (quota_a is None or quota_b < quota_a):
        has = "has none" if quota_a is None else f"has {quota_a:g}"
        yield f"a quota gives it {quota_b:g} cores' worth of CPU time per node; {sides.names[0]} {has}"


def _least(results: Sequence[Result], fact: str) -> float | None:
    values = [table.get(fact) for result in results for table in probed(result)]
    return min((float(value) for value in values if isinstance(value, int | float)), default=None)


def _mean(results: Sequence[Result], share: Callable[[NodeCounts], float | None]) -> float | None:
    """The mean over the runs' worst nodes; a side without a quota was never stopped by one."""
    if share is encounters.throttled_share and results and _least(results, "cpu.quota") is None:
        return 0.0 if all(map(probed, results)) else None
    costs = [
        max(known)
        for result in results
        if (known := [cost for node in result.run.nodes if (cost := share(node)) is not None])
    ]
    return math.fsum(costs) / len(costs) if costs else None

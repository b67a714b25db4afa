"""The cost of runs and results at the prices that systems.yaml states; empty if none is stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from assay.analyse.spending import JOULES_PER_KWH, cost_of_a_result, energy_cost_of_a_result
from assay.records import Estimate, Price, Result, Shape
from assay.units import counted, fixed, significant
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.contents import Contents, Summary


@dataclass(frozen=True)
class Cost:
    """One side's cost at one point of a primary metric.

    paid_for    what a run uses of what is paid for: `8 accelerators`, `0.42 kWh (GPUs)`
    run_s       mean time of a run
    per_run     in the price's currency
    per_result  with its interval and the unit of a result; None for a metric that is no amount of work
    """

    summary: Summary
    price: Price
    paid_for: str
    run_s: float
    per_run: float
    per_result: tuple[Estimate, str] | None


def costs(contents: Contents) -> list[Cost]:
    """The costs of every side that states a price, if its runs' resources and duration are known."""
    return list(_costs(contents))


def _costs(contents: Contents) -> Iterator[Cost]:
    for summary in contents.summaries:
        price, point = contents.prices.get(summary.side), summary.point
        if price is None or contents.primary.get(point.benchmark) != point.metric:
            continue
        runs = [r for r in contents.sides[summary.side] if r.run.id in summary.runs]
        run_s = _seconds(runs)
        if run_s is None:
            continue
        cost_of = _of_energy if price.per == "kWh" else _of_time
        cost = cost_of(contents, summary, price, runs, run_s)
        if cost is not None:
            yield cost


def _of_time(_: Contents, summary: Summary, price: Price, runs: list[Result], run_s: float) -> Cost | None:
    point, held = summary.point, _held(runs, price, summary.point.shape)
    if held is None:
        return None
    per = cost_of_a_result(summary.estimate, point.metric, point.unit, held, price.amount)
    return Cost(summary, price, counted(held, price.per), run_s, run_s / 3600 * held * price.amount, per)


def _of_energy(
    contents: Contents, summary: Summary, price: Price, runs: list[Result], run_s: float
) -> Cost | None:
    """At the measured energy of the runs' GPUs; None if a run has none."""
    energies = [
        measurement.value
        for r in runs
        for measurement in r.reading.measurements
        if measurement.metric == "gpu_energy"
    ]
    if not energies or len(energies) != len(runs):
        return None
    kwh, point = fmean(energies) / JOULES_PER_KWH, summary.point
    work = point.unit.removesuffix("/s") if point.unit.endswith("/s") else ""
    of_result = _beside(contents, summary, "gpu_energy_per_work" if work else "gpu_energy")
    per = None if of_result is None else energy_cost_of_a_result(of_result, point.metric, work, price.amount)
    return Cost(summary, price, f"{significant(kwh, 2)} kWh (GPUs)", run_s, kwh * price.amount, per)


def _beside(contents: Contents, summary: Summary, metric: str) -> Estimate | None:
    """Another metric of the same runs."""
    return next(
        (
            other.estimate
            for other in contents.summaries
            if other.side == summary.side and other.point.metric == metric and other.runs == summary.runs
        ),
        None,
    )


def _held(runs: list[Result], price: Price, shape: str) -> int | None:
    """The number of paid units; None if the number of nodes is unknown or varies."""
    if price.per == "accelerator":
        return Shape.parse(shape).ranks
    counts = {len(r.provenance.nodes) if r.provenance else 0 for r in runs}
    return counts.pop() or None if len(counts) == 1 else None


def _seconds(runs: list[Result]) -> float | None:
    times = [r.run.ended_at - r.run.started_at for r in runs if r.run.started_at and r.run.ended_at]
    return fmean(times) if times and len(times) == len(runs) else None


def sentence(contents: Contents) -> str:
    """`At the stated prices: openshift 1.25 EUR per training, bare-metal 1.20 EUR.`; "" without a price."""
    all_costs = costs(contents)
    if not all_costs:
        return ""
    first = all_costs[0].summary.point
    here = [c for c in all_costs if c.summary.point == first]
    return f"At the stated prices, for {first.benchmark}: {'; '.join(map(_describe_cost, here))}."


def _describe_cost(cost: Cost) -> str:
    if cost.per_result is None:
        return f"{cost.summary.side} {_money(cost.per_run)} {cost.price.currency} per run"
    estimate, what = cost.per_result
    return f"{cost.summary.side} {_money(estimate.value)} {cost.price.currency} per {what}"


def tables(contents: Contents) -> tuple[Table, ...]:
    """Price, resources, time and cost of a run, and cost of a result."""
    all_costs = costs(contents)
    if not all_costs:
        return ()
    columns = (
        "system",
        "benchmark",
        "where",
        "price",
        "used",
        "time of a run",
        "cost of a run",
        "cost of a result",
    )
    rows = tuple(TableRow(_cells(cost)) for cost in all_costs)
    return (
        Table(
            "Cost, at the prices that systems.yaml states",
            columns,
            (TableBody("", rows),),
            frozenset({0, 1, 2, 3, 4}),
        ),
    )


def _cells(cost: Cost) -> tuple[str, ...]:
    unit, (time,) = figures.column([cost.run_s], "s")
    currency, result = cost.price.currency, figures.NONE
    if cost.per_result is not None:
        estimate, what = cost.per_result
        ends = (
            ""
            if estimate.low is None or estimate.high is None
            else f" ({_money(estimate.low)} to {_money(estimate.high)})"
        )
        result = f"{_money(estimate.value)}{ends} {currency} per {what}"
    point = cost.summary.point
    return (
        cost.summary.side, point.benchmark, figures.where(point), str(cost.price), cost.paid_for,
        f"{time} {unit}", f"{_money(cost.per_run)} {currency}", result,
    )  # fmt: skip


def _money(amount: float) -> str:
    return fixed(amount, 2) if amount >= 1 else f"{significant(amount, 2)}"

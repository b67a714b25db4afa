"""The cost of runs and results at the prices that systems.yaml states; empty if none is stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from assay.analyse.spending import cost_of_a_result
from assay.records import Estimate, Price, Result, Shape
from assay.report import figures
from assay.report.contents.contents import Contents, Summary
from assay.report.tables import Table, TableBody, TableRow
from assay.units import fixed, significant


@dataclass(frozen=True)
class Cost:
    """One side's cost at one point of a primary metric.

    held        accelerators or nodes that a run occupies
    run_s       mean time of a run
    per_result  with its interval and the unit of a result; None for a metric that is no amount of work
    """

    summary: Summary
    price: Price
    held: int
    run_s: float
    per_result: tuple[Estimate, str] | None

    @property
    def per_run(self) -> float:
        """In the price's currency."""
        return self.run_s / 3600 * self.held * self.price.amount


def costs(contents: Contents) -> list[Cost]:
    """The costs of every side that states a price, if its runs' resources and duration are known."""
    return list(_costs(contents))


def _costs(contents: Contents) -> Iterator[Cost]:
    for summary in contents.summaries:
        price, point = contents.prices.get(summary.side), summary.point
        if price is None or contents.primary.get(point.benchmark) != point.metric:
            continue
        runs = [r for r in contents.sides[summary.side] if r.run.id in summary.runs]
        held, run_s = _held(runs, price, point.shape), _seconds(runs)
        if held is not None and run_s is not None:
            per = cost_of_a_result(summary.estimate, point.metric, point.unit, held, price.amount)
            yield Cost(summary, price, held, run_s, per)


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
    found = costs(contents)
    if not found:
        return ""
    first = found[0].summary.point
    here = [c for c in found if c.summary.point == first]
    return f"At the stated prices, for {first.benchmark}: {'; '.join(map(_one, here))}."


def _one(cost: Cost) -> str:
    if cost.per_result is None:
        return f"{cost.summary.side} {_money(cost.per_run)} {cost.price.currency} per run"
    estimate, what = cost.per_result
    return f"{cost.summary.side} {_money(estimate.value)} {cost.price.currency} per {what}"


def tables(contents: Contents) -> tuple[Table, ...]:
    """Price, resources, time and cost of a run, and cost of a result."""
    found = costs(contents)
    if not found:
        return ()
    columns = (
        "system",
        "benchmark",
        "where",
        "price",
        "held",
        "time of a run",
        "cost of a run",
        "cost of a result",
    )
    rows = tuple(TableRow(_cells(cost)) for cost in found)
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
    held = f"{cost.held} {cost.price.per}{'s' if cost.held > 1 else ''}"
    point = cost.summary.point
    return (
        cost.summary.side, point.benchmark, figures.where(point), str(cost.price), held, f"{time} {unit}",
        f"{_money(cost.per_run)} {currency}", result,
    )  # fmt: skip


def _money(amount: float) -> str:
    return fixed(amount, 2) if amount >= 1 else f"{significant(amount, 2)}"

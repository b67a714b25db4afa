"""Accelerator-hours per result, and its cost and energy if a price or a power is stated."""

from __future__ import annotations

from dataclasses import dataclass

from assay.analyse.points.ratio import scaled
from assay.records import Estimate, Scaling, ScalingPoint
from assay.units import factor

# How much of a rate is one result, in the units people pay for.
_AMOUNTS = {"FLOP": (1e18, "EFLOP"), "B": (1e12, "TB")}
_MILLION = 1e6
JOULES_PER_KWH = 3.6e6
_RESULTS = {"time_to_train": "training", "time_per_epoch": "epoch", "step_time": "step"}


@dataclass(frozen=True)
class Prices:
    """The user's price of an accelerator-hour, in their currency, and an accelerator's power in watts."""

    per_accelerator_hour: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class Spending:
    """The resources of one result at a size.

    per                what one result is: `training`, `epoch`, `million images`, `1 EFLOP`
    accelerator_hours  of all ranks together, with its interval; unit `h`
    cost               in the currency of the price; None without a price
    energy             of the accelerators at the stated power, unit `J`; None without a power
    """

    shape: str
    ranks: int
    per: str
    accelerator_hours: Estimate
    cost: Estimate | None
    energy: Estimate | None


def spending(point: ScalingPoint, scaling: Scaling, prices: Prices) -> Spending:
    """The resources of one result: one run for a time, a million samples for a rate.

    All ranks of the shape count for the whole time, busy or not, because all are paid for.
    """
    seconds, per = _seconds(point.value, scaling.metric, scaling.unit)
    hours = scaled(seconds, point.ranks / 3600, "h")
    price, power = prices.per_accelerator_hour, prices.power_w
    return Spending(
        shape=point.shape,
        ranks=point.ranks,
        per=per,
        accelerator_hours=hours,
        cost=None if price is None else scaled(hours, price, ""),
        energy=None if power is None else scaled(hours, power * 3600, "J"),
    )


def cost_of_a_result(
    value: Estimate, metric: str, unit: str, held: int, price_per_hour: float
) -> tuple[Estimate, str] | None:
    """The cost of one result, and what one result is: a training, a million images, a step.

    held            accelerators or nodes that are paid for
    price_per_hour  of each of them

    None for metrics that are no amount of work, such as an accuracy or a latency.
    """
    base = factor(unit)[1]
    if metric not in _RESULTS and not (base.endswith("/s") and base.removesuffix("/s") not in _AMOUNTS):
        return None
    seconds, per = _seconds(value, metric, unit)
    return scaled(seconds, held * price_per_hour / 3600, ""), per


def energy_cost_of_a_result(
    energy: Estimate, metric: str, work: str, price_per_kwh: float
) -> tuple[Estimate, str] | None:
    """The cost of one result's energy, and what one result is.

    energy  in J: of a run if the metric is the time of a result, else of one unit of work
    work    that a rate counts: `images`; "" if the metric is no rate

    None for metrics that are no amount of work, and for those of a part of a run.
    """
    per_joule = price_per_kwh / JOULES_PER_KWH
    if metric == "time_to_train":
        return scaled(energy, per_joule, ""), _RESULTS[metric]
    if not work:
        return None
    return scaled(energy, _MILLION * per_joule, ""), f"million {work}"


def _seconds(value: Estimate, metric: str, unit: str) -> tuple[Estimate, str]:
    to_base, base = factor(unit)
    if base == "s":
        return scaled(value, to_base, "s"), _RESULTS.get(metric, metric)
    what = base.removesuffix("/s")
    amount, amount_name = _AMOUNTS.get(what, (_MILLION, f"million {what}"))
    amount_name = amount_name if what not in _AMOUNTS else f"1 {amount_name}"
    rate = scaled(value, to_base, base)
    low = None if rate.high is None else amount / rate.high
    high = None if rate.low is None else amount / rate.low
    return Estimate(amount / rate.value, low, high, value.n, "s", value.confidence), amount_name

"""What follows from a scaling curve, as text for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.doubts import KINDS
from assay.analyse.exchange.communication import Communication
from assay.analyse.scaling.doubts import SUPERLINEAR
from assay.analyse.scaling.laws import MISFIT
from assay.analyse.scaling.study import Law, Layout, Prediction, Study
from assay.analyse.spending import Spending
from assay.records import Doubt, ScalingPoint
from assay.units import human, significant
from assay.view import figures
from assay.view.sentences.run_details import describe_usages

_LAWS = {"amdahl": "Amdahl's law", "usl": "the Universal Scalability Law"}
_LIMITS = {
    "serial-share": "serial share",
    "contention": "contention",
    "coherence": "coherence",
    "border": "a border",
    "none-seen": "no limit seen",
    "unknown": "unknown",
}


def heading(study: Study) -> str:
    """`dgx · resnet50 throughput`: which curve this is."""
    curve = study.curve
    title = f"{curve.system} · {curve.benchmark} {figures.metric(curve.metric)}"
    return ", ".join(filter(None, (title, figures.labels(curve.labels))))


def lead(study: Study) -> str:
    """A summary in one sentence: what the largest size gains, what it loses, and how certain that is."""
    points = study.curve.points
    base, most = (
        points[0],
        max(points, key=lambda point: point.ranks),
    )  # of shapes with the same number of ranks, the one with the fewest workers
    parts = (*_impossible(study), _gain(study, base, most), _left_out(study))
    return " ".join(filter(None, (*parts, _grave([*study.doubts, *most.doubts]))))


def _impossible(study: Study) -> list[str]:
    """Steps that gain more than their ranks: each size that lost speed, and what to do."""
    return [f"{d.evidence}. {d.remedy}." for d in study.doubts if d.code == SUPERLINEAR.code]


def _left_out(study: Study) -> str:
    if not study.left_out:
        return ""
    many = len(study.left_out) > 1
    return (
        f"{', '.join(study.left_out)} trained with {'other batch sizes' if many else 'another batch size'} "
        f"and {'are' if many else 'is'} left out of the law."
    )


def _gain(study: Study, base: ScalingPoint, most: ScalingPoint) -> str:
    if most.ranks == base.ranks:
        return " ".join(f"{layout(shapes)}." for shapes in study.layouts)
    lost = (1 - most.efficiency.value) * most.ranks
    idle = f", as if {significant(lost, 2)} of the {most.ranks:,} ranks were idle" if lost > 0 else ""
    impossible = any(step.impossible for step in study.steps)
    limits = {"unknown": "" if impossible else "; the limit is unknown", "none-seen": ""}
    limit = limits.get(study.limit, f"; limited by {_LIMITS[study.limit]}")
    return (
        f"{most.shape} is {figures.ratio(most.speedup)} times as fast as {base.shape} on "
        f"{most.ranks / base.ranks:g} times the ranks: "
        f"efficiency {figures.share(most.efficiency)}{idle}{limit}."
    )


def _grave(doubts: Sequence[Doubt]) -> str:
    """Doubts to fix first, for readers who read only one sentence."""
    codes = dict.fromkeys(d.code for d in doubts if KINDS[d.code].severity == "invalid")
    return f"Fix before you decide: {', '.join(codes)}." if codes else ""


def list_conclusions(study: Study) -> list[tuple[str, str]]:
    """Each conclusion with its name."""
    conclusions = [("kind", _kind(study)), ("limited by", f"{_LIMITS[study.limit]}: {study.limit_reason}")]
    conclusions += [("speed per rank", text) for text in _per_rank(study)]
    conclusions += [("communication", communication(exchange)) for exchange in study.communication]
    conclusions += [("layout", layout(shapes)) for shapes in study.layouts]
    conclusions += spending(study.spending)
    conclusions += [("predicted", text) for text in _predictions(study)]
    conclusions += [("law", law(fitted)) for fitted in study.laws]
    return conclusions + [("share of maximum", line) for line in describe_usages(study.usage)]


def _kind(study: Study) -> str:
    if study.kind == "unknown":
        return f"weak or strong scaling is unknown: {study.kind_reason}"
    return f"{study.kind} scaling: {study.kind_reason}"


def _per_rank(study: Study) -> list[str]:
    """`1x8 887 images/s · 2x8 859 images/s`; empty if unknown."""
    if not study.per_rank:
        return []
    unit, texts = figures.column([rate.value for rate in study.per_rank], study.per_rank[0].unit)
    points = study.curve.points
    return [" · ".join(f"{p.shape} {text} {unit}" for p, text in zip(points, texts, strict=True))]


def communication(exchange: Communication) -> str:
    """The time of one gradient exchange as a share of a step and of what the step lost."""
    size, took = human(exchange.gradient_bytes, "B"), human(exchange.exchange.value, "s")
    beyond = (
        f", extrapolated from {figures.binary_bytes(exchange.measured_bytes)}"
        if exchange.extrapolated
        else ""
    )
    return (
        f"{figures.shape(exchange.shape)}: one exchange of {size} takes {took} on its own{beyond}, "
        f"{figures.share(exchange.share)} of a step (at most: overlap hides part of it){_lost(exchange)}"
    )


def _lost(exchange: Communication) -> str:
    if exchange.lost is None:
        return ""
    base = figures.shape(exchange.base)
    if (exchange.lost.low is not None and exchange.lost.low <= 0) or exchange.lost.value <= 0:
        return f"; what the step lost compared with {base} can't be distinguished from zero"
    seconds = human(exchange.step.value * exchange.lost.value, "s")
    text = f"; the step lost {seconds} compared with {base}, {figures.share(exchange.lost)} of it"
    if exchange.explained is None:
        return text
    return (
        f"{text}: communication explains {_explained(exchange.explained)}, unless computation slows it down"
    )


def _explained(share: float) -> str:
    return "up to all of that" if share >= 1 else f"at most {figures.percent(share)} of that"


def law(fitted: Law) -> str:
    """The shares with their intervals, and how well the law predicts sizes that were held out."""
    parts = [f"serial {figures.share(fitted.serial)}"]
    if fitted.coherence is not None:
        parts.append(f"coherence {figures.share(fitted.coherence)}")
    if fitted.error is None:
        parts.append("no size held out: too few sizes")
    else:
        parts.append(f"held-out error {figures.percent(fitted.error)}")
    if _misses(fitted):
        parts.append("the sizes' means deviate from it by more than the runs' scatter explains")
    return f"{_LAWS[fitted.name]}: {', '.join(parts)}"


def _misses(fitted: Law) -> bool:
    return fitted.misfit is not None and fitted.misfit < MISFIT


def _predictions(study: Study) -> list[str]:
    """Predicted value and efficiency at each size, and how far to trust the extrapolation."""
    ends = [(p.value.value, p.value.low, p.value.high) for p in study.predictions]
    halves = [
        figures.half_width(p.value)
        for p, interval in zip(study.predictions, ends, strict=True)
        for end in interval
        if end is not None
    ]
    unit, texts = figures.column(
        [end for interval in ends for end in interval if end is not None], study.curve.unit, halves
    )
    shown = iter(texts)
    predictions = []
    for p, (_, low, high) in zip(study.predictions, ends, strict=True):
        text = f"{p.ranks} ranks: {next(shown)} {unit}".rstrip()
        if low is not None and high is not None:
            text += f" ({next(shown)} to {next(shown)})"
        predictions.append(f"{text}, efficiency {figures.share(p.efficiency)}{_worth(p)}")
    return predictions


def _worth(prediction: Prediction) -> str:
    if prediction.why_none:
        return f"; no interval: {prediction.why_none}"
    if prediction.far:
        return "; far extrapolation: this says more about the laws than about the machine"
    if prediction.extrapolation:
        return "; extrapolated: the interval covers each law that fits the measured sizes"
    return ""


def layout(shapes: Layout) -> str:
    """One shape compared with another that has the same number of accelerators."""
    speed = figures.ratio(shapes.speed)
    return f"{shapes.shape} is {speed} times as fast as {shapes.base}, {shapes.ranks} ranks each"


def spending(spendings: Sequence[Spending]) -> list[tuple[str, str]]:
    """Accelerator-hours by size; cost and energy if they are known."""
    if not spendings:
        return []
    per = spendings[0].per
    unit, hours = figures.column(
        [s.accelerator_hours.value for s in spendings], spendings[0].accelerator_hours.unit
    )
    name = "accelerator-hours" if unit in ("h", "") else "accelerator time"
    lines = [(f"{name} per {per}", _by_size(spendings, hours, unit))]
    costs = [s.cost.value for s in spendings if s.cost is not None]
    energies = [s.energy.value for s in spendings if s.energy is not None]
    if costs:
        lines.append((f"cost per {per}", _by_size(spendings, figures.column(costs, "")[1], "")))
    if energies:
        unit, texts = figures.column(energies, "J")
        lines.append((f"energy per {per}", _by_size(spendings, texts, unit)))
    return lines


def _by_size(spendings: Sequence[Spending], texts: Sequence[str], unit: str) -> str:
    return " · ".join(f"{s.shape} {text} {unit}".rstrip() for s, text in zip(spendings, texts, strict=True))

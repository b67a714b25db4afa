"""What follows from a scaling curve, in words: the same for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.communication import Communication
from assay.analyse.scaling_study import Law, Layout, Prediction, Study
from assay.analyse.spending import Spending
from assay.records import Estimate
from assay.report import expected_words, figures
from assay.units import human

_LAWS = {"amdahl": "Amdahl's law", "usl": "the Universal Scalability Law"}
_LIMITS = {
    "serial-share": "serial share",
    "contention": "contention",
    "coherence": "coherence",
    "none-seen": "nothing seen",
    "unknown": "not known",
}


def heading(study: Study) -> str:
    """`dgx · resnet50 throughput`: whose curve it is."""
    curve = study.curve
    words = f"{curve.system} · {curve.benchmark} {figures.metric(curve.metric)}"
    return ", ".join(filter(None, (words, figures.labels(curve.labels))))


def words(study: Study) -> list[tuple[str, str]]:
    """Each thing that follows, under its name."""
    told = [("kind", _kind(study)), ("limited by", f"{_LIMITS[study.limit]}: {study.limit_reason}")]
    told += [("communication", communication(found)) for found in study.communication]
    told += [("law", law(found)) for found in study.laws]
    told += [("predicted", prediction(p)) for p in study.predictions]
    told += [("layout", layout(found)) for found in study.layouts]
    told += spending(study.spending)
    return told + [("of what is possible", line) for line in expected_words.words(study.usage)]


def _kind(study: Study) -> str:
    if study.kind == "unknown":
        return f"weak or strong scaling is not known: {study.kind_reason}"
    return f"{study.kind} scaling: {study.kind_reason}"


def communication(found: Communication) -> str:
    """What one exchange of the gradients takes, of a step and of what the step lost."""
    size, took = human(found.gradient_bytes, "B"), human(found.exchange.value, "s")
    beyond = f", extrapolated from {figures.binary_bytes(found.measured_bytes)}" if found.extrapolated else ""
    return (
        f"{figures.shape(found.shape)}: one exchange of {size} takes {took} alone{beyond}, "
        f"{_of_step(found.share)} of a step (at most: overlap hides some){_lost(found)}"
    )


def _lost(found: Communication) -> str:
    if found.lost is None:
        return ""
    base = figures.shape(found.base)
    if (found.lost.low is not None and found.lost.low <= 0) or found.lost.value <= 0:
        return f"; what the step lost over {base} is not told from nothing"
    seconds = human(found.step.value * found.lost.value, "s")
    text = f"; the step lost {seconds} over {base}, {_of_step(found.lost)} of it"
    if found.explained is None:
        return text
    return f"{text}: communication explains {_explained(found.explained)}, unless computing slows it down"


def _explained(share: float) -> str:
    return "up to all of that" if share >= 1 else f"at most {figures.percent(share)} of that"


def _of_step(share: Estimate) -> str:
    """`25 % (23 to 27 %)`."""
    ends = "no interval" if share.low is None or share.high is None else figures.span(share.low, share.high)
    return f"{figures.percent(share.value)} ({ends})"


def law(found: Law) -> str:
    """The shares with their intervals, and how well the law predicts sizes that it was not shown."""
    parts = [f"serial {_share(found.serial)}"]
    if found.coherence is not None:
        parts.append(f"coherence {_share(found.coherence)}")
    if found.error is None:
        parts.append("not held out: too few sizes")
    else:
        parts.append(f"held-out error {figures.percent(found.error)}")
    if found.misfit is not None and found.misfit < 0.05:
        parts.append("the sizes' means miss it by more than the runs' scatter explains")
    return f"{_LAWS[found.name]}: {', '.join(parts)}"


def prediction(made: Prediction) -> str:
    """Value and efficiency at a size, and that it was not measured."""
    value, interval, _ = figures.measured(made.value)
    text = f"{made.ranks} ranks: {value}"
    if interval != figures.NONE:
        text += f" ({interval})"
    text += f", efficiency {_share(made.efficiency)}"
    if made.far:
        return f"{text}; far extrapolation, it says more of the law than of the machine"
    return f"{text}; extrapolation, while the law holds" if made.extrapolation else text


def layout(found: Layout) -> str:
    """One shape against another of equally many accelerators."""
    speed = figures.ratio(found.speed)
    return f"{found.shape} is {speed} times as fast as {found.base}, {found.ranks} ranks each"


def spending(of: Sequence[Spending]) -> list[tuple[str, str]]:
    """Accelerator-hours by size; cost and energy where they are known."""
    if not of:
        return []
    per = of[0].per
    told = [(f"accelerator-hours per {per}", _by_size(of, [_hours(s.accelerator_hours) for s in of]))]
    costs = [f"{s.cost.value:,.4g}" for s in of if s.cost is not None]
    energies = [human(s.energy.value, "J") for s in of if s.energy is not None]
    if costs:
        told.append((f"cost per {per}", _by_size(of, costs)))
    if energies:
        told.append((f"energy per {per}", _by_size(of, energies)))
    return told


def _by_size(of: Sequence[Spending], texts: Sequence[str]) -> str:
    return " · ".join(f"{s.shape} {text}" for s, text in zip(of, texts, strict=True))


def _hours(hours: Estimate) -> str:
    return f"{hours.value:,.4g} h"


def _share(share: Estimate) -> str:
    """`1.2 % (0.9 % to 1.5 %)`."""
    if share.low is None or share.high is None:
        return f"{_percent(share.value)}, no interval"
    return f"{_percent(share.value)} ({_percent(share.low)} to {_percent(share.high)})"


def _percent(share: float) -> str:
    """Three significant digits: shares of a tenth of a percent decide on many ranks."""
    return f"{share * 100:.3g} %" if share >= 1e-7 else "0 %"

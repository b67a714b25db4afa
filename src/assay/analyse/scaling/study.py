"""Conclusions from a scaling curve: weak or strong, what limits it, how far it goes, what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal

from assay.analyse.exchange import communication
from assay.analyse.exchange.communication import Communication
from assay.analyse.expectations.shares import Flops, Usage, of_group
from assay.analyse.points.groups import Group, Sample
from assay.analyse.points.ratio import Ratio, logs, looked_at, ratio
from assay.analyse.points.replication import pairing
from assay.analyse.scaling import doubts as scaling_doubts
from assay.analyse.scaling import laws
from assay.analyse.scaling.curve import Curve
from assay.analyse.scaling.extrapolation import extrapolate, still_fits
from assay.analyse.scaling.laws import Fit, HoldoutSize, Size
from assay.analyse.scaling.sizes import Border, Kind, ScalingStep, border, kind_of, one_training, steps
from assay.analyse.spending import Prices, Spending, spending
from assay.analyse.statistics.intervals import ratio_end
from assay.analyse.statistics.sequential import IN_FAMILY
from assay.records import Better, Doubt, Estimate, Result, Run, Scaling, Shape
from assay.units import percent

Fitted = tuple[Fit, tuple[HoldoutSize, ...]]
FAR = 4  # times the largest size: predictions beyond say more about the law than about the machine
Limit = Literal["serial-share", "contention", "coherence", "border", "none-seen", "unknown"]


@dataclass(frozen=True)
class Law:
    """A law fitted to a curve.

    serial     share that is not divided among the ranks (σ); under weak scaling, contention
    coherence  cost of a pair of ranks (κ), a share of one rank's work; None under Amdahl's law
    sizes      that it was fitted to
    held_out   each size predicted from the others
    error      root mean square of these errors, a share of the throughput; None if there are too few sizes
    misfit     probability of means this far from the law, if it were true; None if unknown
    """

    name: laws.Name
    serial: Estimate
    coherence: Estimate | None
    sizes: tuple[int, ...]
    held_out: tuple[HoldoutSize, ...]
    error: float | None
    misfit: float | None


@dataclass(frozen=True)
class Prediction:
    """The mean at a size, with the 95 % interval over all laws that fit the measured sizes.

    extrapolation  the size is outside those measured; far: more than four times the largest
    laws           that the interval covers; empty if there is none
    why_none       why there is no interval; "" if there is one
    """

    ranks: int
    value: Estimate
    efficiency: Estimate
    extrapolation: bool
    far: bool
    laws: tuple[str, ...] = ()
    why_none: str = ""


@dataclass(frozen=True)
class Layout:
    """Two shapes with equal accelerators: the speed of `shape` relative to `base` (the fewest workers)."""

    ranks: int
    base: str
    shape: str
    speed: Estimate
    method: str


@dataclass(frozen=True)
class Study:
    """A curve and its conclusions. `laws[0]` is the one that limit and predictions rest on.

    kind_reason   the global batch sizes that distinguish weak from strong scaling
    steps         what each size gains over the next smaller one
    left_out      sizes that are not part of the laws: they trained with another batch size
    per_rank      each size's throughput per rank; empty if it is unknown at any size
    limit_reason  what the largest size loses and to what, as text
    communication the sizes at which an all-reduce measured in the same sessions shows the time of an exchange
    """

    curve: Scaling
    kind: Kind
    kind_reason: str
    laws: tuple[Law, ...]
    limit: Limit
    limit_reason: str
    predictions: tuple[Prediction, ...]
    layouts: tuple[Layout, ...]
    spending: tuple[Spending, ...]
    usage: tuple[Usage, ...]
    doubts: tuple[Doubt, ...]
    steps: tuple[ScalingStep, ...] = ()
    left_out: tuple[str, ...] = ()
    per_rank: tuple[Estimate, ...] = ()
    communication: tuple[Communication, ...] = ()


def study(
    curve: Curve,
    *,
    ranks_requested: Sequence[int] = (),
    prices: Prices | None = None,
    flops: Flops | None = None,
    beside: Iterable[Result] = (),
) -> Study:
    """The conclusions from a curve.

    ranks_requested  ranks to predict for; default: twice and four times the largest size
    prices           of an accelerator-hour and watts per accelerator, if known
    flops            per sample, for each size's MFU
    beside           results of the curve's sessions, whose all-reduces show the cost of communication

    If several shapes have the same number of ranks, laws are fitted to those with the fewest workers; if
    sizes trained with several batch sizes, to the largest set that is one training.
    """
    scaling = curve.scaling()
    packed = [next(iter(of_ranks)) for _, of_ranks in groupby(curve.groups, attrgetter("ranks"))]
    ranked = [(g.ranks, g) for g in packed]
    kind, kind_reason = kind_of(ranked)
    law_kind, together = one_training(ranked, weak=scaling.metric != "time_to_train")
    sizes, blocked = _sizes(together, curve.better)
    level = max(0.95, looked_at([g.samples for g in together], paired=blocked))
    fitted = _fitted(sizes, blocked=blocked, confidence=level)
    fitted_laws = tuple(_law(fit, held_out) for fit, held_out in fitted)
    chosen = fitted[0][0] if fitted else None
    candidates = _candidates(sizes, blocked=blocked, confidence=level)
    nodes = [Shape.parse(g.point.shape).workers for g in together]
    crossed = border(sizes, nodes, blocked=blocked)
    gained = steps(packed, curve.better)
    superlinear = tuple(scaling_doubts.superlinear(gained, scaling.metric))
    none = (
        "sizes that trained with different batch sizes follow no single law"
        if len(packed) > 1
        else "one size has no law"
    )
    unknown: tuple[Limit, str] = ("unknown", none)
    off = _off_the_curve(fitted[0], candidates, crossed, impossible=bool(superlinear)) if fitted else ()
    suspects = (*superlinear, *off)
    suspect = _suspect(sizes, candidates, bool(suspects), blocked=blocked)
    limit, reason = unknown if chosen is None else _limit(chosen, law_kind, candidates, crossed)
    return Study(
        curve=scaling,
        kind=kind,
        kind_reason=kind_reason,
        laws=fitted_laws,
        limit=limit,
        limit_reason=reason,
        predictions=()
        if chosen is None
        else _predictions(
            chosen, candidates, curve, ranks_requested, one_node=max(nodes) == 1, suspect=suspect
        ),
        layouts=_layouts(curve),
        spending=tuple(spending(p, scaling, prices or Prices()) for p in scaling.points),
        usage=tuple(_usage(curve, flops or _no_flops)),
        doubts=(
            *suspects,
            *scaling_doubts.batch_differs(scaling.metric, kind, kind_reason, curve.metrics_of_the_system()),
        ),
        steps=gained,
        left_out=() if chosen is None else tuple(g.point.shape for g in packed if g not in together),
        per_rank=curve.per_rank(),
        communication=tuple(communication.of_curve(curve.groups, scaling, beside)),
    )


def _no_flops(_run: Run) -> None:
    return None


def _usage(curve: Curve, flops: Flops) -> Iterator[Usage]:
    for group in curve.groups:
        size_usage = of_group(curve.system, group, flops)
        if size_usage is not None:
            yield size_usage


def _sizes(groups: Sequence[Group], better: Better) -> tuple[list[Size], bool]:
    """Logarithms of throughput by size, and whether the n-th runs of all sizes come from one block.

    They do if the design paired them; then blocks that lack a size are left out.
    """
    sign = 1 if better == "higher" else -1
    unit = groups[0].point.unit
    same_unit = [g.in_unit(unit) for g in groups]
    first = same_unit[0]
    if all(pairing(first.samples, g.samples) for g in same_unit[1:]):
        tables = [{_block(s): s for s in g.samples} for g in same_unit]
        common = sorted(set.intersection(*(set(t) for t in tables)))
        if len(common) > 1:
            return [
                Size(g.ranks, tuple(sign * math.log(t[b].value) for b in common))
                for g, t in zip(same_unit, tables, strict=True)
            ], True
    return [Size(g.ranks, tuple(sign * log for log in logs(g))) for g in same_unit], False


def _block(sample: Sample) -> tuple[str, int]:
    return sample.result.run.session, sample.result.run.trial.block


def _fitted(sizes: Sequence[Size], *, blocked: bool, confidence: float) -> list[Fitted]:
    """Laws that the sizes allow, validated with each size held out, the preferred one first.

    The law with two shares is preferred only if κ is certainly above 0 and it predicts held-out sizes better.
    """
    names: tuple[laws.Name, ...] = ("amdahl", "usl") if len(sizes) >= laws.USL_SIZES else ("amdahl",)
    # small errors add up faster over looks than 5 % does
    together = confidence if confidence <= 0.95 else 1 - IN_FAMILY * (1 - confidence)
    fitted = [
        (fit, laws.held_out(sizes, name, blocked=blocked, confidence=together))
        for name in names
        if (fit := laws.fit(sizes, name, blocked=blocked, confidence=confidence)) is not None
    ]
    if len(fitted) < 2:
        return fitted
    (_, of_one), (usl, of_two) = fitted
    errors = laws.typical_error(of_one), laws.typical_error(of_two)
    better = errors[0] is not None and errors[1] is not None and errors[1] < errors[0]
    return fitted[::-1] if better and (usl.share(1).low or 0) > 0 else fitted


def _candidates(sizes: Sequence[Size], *, blocked: bool, confidence: float) -> list[Fit]:
    """Every law that the sizes allow, of which an interval beyond the sizes covers those that fit.

    Half of the error that is allowed pays for choosing by the fit.
    """
    fits = (laws.fit(sizes, name, blocked=blocked, confidence=(1 + confidence) / 2) for name in laws.SHARES)
    return [fit for fit in fits if fit is not None]


def _off_the_curve(
    preferred: Fitted, candidates: Sequence[Fit], crossed: Border | None, *, impossible: bool
) -> Iterator[Doubt]:
    """Nothing is off if any smooth law fits all sizes: it may simply be the true one."""
    if not any(fit.fits for fit in candidates):
        yield from scaling_doubts.off_the_curve(*preferred, impossible=impossible, border=crossed)


def _suspect(sizes: Sequence[Size], candidates: Sequence[Fit], doubted: bool, *, blocked: bool) -> str:
    """Why a size may be slow, so that no law bounds what lies beyond; "" if none may be.

    A slow largest size looks like a loss that grows faster than Amdahl's, whatever the number of sizes.
    """
    if doubted:
        return "a measured size may be slow: see the doubts"
    slower = ("amdahl", *laws.FLATTENING)
    rest = laws.fit(sizes[:-1], "amdahl", blocked=blocked)
    if any(fit.fits for fit in candidates if fit.name in slower) or rest is None or not rest.fits:
        return ""
    return (
        f"{len(sizes)} sizes can't distinguish a slow largest size from a loss that grows faster than the "
        f"ranks: repeat {sizes[-1].ranks} ranks on other nodes, or measure a larger size"
    )


def _law(fit: Fit, held_out: tuple[HoldoutSize, ...]) -> Law:
    return Law(
        name=fit.name,
        serial=fit.share(0),
        coherence=fit.share(1) if fit.name == "usl" else None,
        sizes=tuple(s.ranks for s in fit.sizes),
        held_out=held_out,
        error=laws.typical_error(held_out),
        misfit=fit.misfit,
    )


def _limit(fit: Fit, kind: Kind, candidates: Sequence[Fit], crossed: Border | None) -> tuple[Limit, str]:
    """What takes most of what the largest size loses, if the runs can distinguish it from zero."""
    fitting = [law for law in candidates if law.fits and law.name != "amdahl"]
    if not fit.fits:
        if fitting:
            return "unknown", _GROWS[max(fitting, key=lambda law: law.misfit or 0).name]
        if crossed is not None:
            return "border", scaling_doubts.crossing(crossed)
        return "unknown", "the sizes' means deviate from the law by more than the runs' scatter explains"
    n = fit.sizes[-1].ranks
    serial, coherence = fit.share(0), fit.share(1) if fit.name == "usl" else None
    if serial.low is None:
        return "unknown", "runs are too few, or too similar, for an interval: more runs of each size"
    parts: list[tuple[Limit, Estimate, float]] = [
        ("contention" if kind == "weak" else "serial-share", serial, serial.value * (n - 1))
    ]
    if coherence is not None:
        parts.append(("coherence", coherence, coherence.value * n * (n - 1)))
    seen = [part for part in parts if (part[1].low or 0) > 0]
    if not seen:
        most = percent(serial.high or 0)
        return (
            "none-seen",
            f"up to {n} ranks, no loss can be distinguished from zero (at most {most} per further rank)",
        )
    if unclear := _other_causes(fit, candidates):
        return "unknown", unclear
    whole = 1 + math.fsum(lost for _, _, lost in parts)
    name, share, lost = max(seen, key=lambda part: part[2])
    reason = (
        f"{percent(lost / whole)} of the ideal speed of {n} ranks is lost to it: {percent(share.value)} "
        f"({percent(share.low or 0)} to {percent(share.high or 0)}) {_MEANING[name]}"
    )
    return name, reason


def _other_causes(fit: Fit, candidates: Sequence[Fit]) -> str:
    """Why the cause of a loss is not known, though a law fits: others fit as well; "" if none does."""
    others = [_CAUSES[law.name] for law in candidates if law.name in _CAUSES and still_fits(law)]
    both = next((law for law in candidates if law.name == "usl"), None)
    if fit.name == "amdahl" and both is not None and (both.share(0).low or 0) <= 0:
        others.append("coherence")
    if not others:
        return ""
    shares = "a serial share" if fit.name == "amdahl" else "a serial share and coherence"
    causes = " or ".join(dict.fromkeys(others))
    return f"{len(fit.sizes)} sizes with this scatter can't distinguish {shares} from {causes}"


_CAUSES: dict[laws.Name, str] = {
    "ring": "exchanges in a ring",
    "tree": "exchanges in a tree",
    "root": "a loss that grows with the square root of the ranks",
    "exchanges": "a loss that grows faster than the ranks",
    "steep": "a loss that grows faster than the ranks",
    "pairs": "coherence",
}
_GROWS: dict[laws.Name, str] = {
    "usl": "the loss grows as a serial share and coherence together do; from few sizes neither is certain",
    "ring": "the loss approaches a limit, as (n − 1)/n does: what exchanges in a ring cost is one cause",
    "tree": "the loss grows with the logarithm of the ranks: what exchanges in a tree cost is one cause",
    "root": "the loss grows with the square root of the ranks: no constant share explains it",
    "exchanges": "the loss grows as n · log(n): what further rounds of an exchange cost is one cause",
    "steep": "the loss grows as n^1.5: no constant share explains it",
    "pairs": "the loss grows with the pairs of ranks: what coherence costs is one cause",
}
_MEANING: dict[Limit, str] = {
    "serial-share": "of one rank's work is not divided among the ranks",
    "contention": "of one rank's step is added by each further rank",
    "coherence": "of one rank's work is added by each pair of ranks",
}


def _predictions(
    fit: Fit,
    candidates: Sequence[Fit],
    curve: Curve,
    ranks_requested: Sequence[int],
    *,
    one_node: bool,
    suspect: str,
) -> tuple[Prediction, ...]:
    unit = curve.groups[0].point.unit
    least, most, largest = fit.sizes[0].ranks, fit.sizes[-1].ranks, curve.groups[-1].ranks
    runs = sum(len(s.logs) for s in fit.sizes)
    predictions = []
    for ranks in ranks_requested or (2 * largest, 4 * largest):
        outside = not least <= ranks <= most
        covered = candidates if outside or not fit.fits else (fit,)
        extrapolation = extrapolate(
            fit, covered, ranks, one_node=one_node and ranks > most, suspect=suspect if outside else ""
        )
        value, low, high = extrapolation.log_speed
        ends: tuple[float | None, float | None] = (low, high)
        if curve.better == "lower":
            value, ends = -value, (None if high is None else -high, None if low is None else -low)
        low, high = (None if log is None else ratio_end(log) for log in ends)
        estimate = Estimate(math.exp(value), low, high, runs, unit, fit.confidence)
        predictions.append(
            Prediction(
                ranks,
                estimate,
                extrapolation.efficiency,
                outside,
                ranks > FAR * most,
                extrapolation.laws,
                extrapolation.why_none,
            )
        )
    return tuple(predictions)


def _layouts(curve: Curve) -> tuple[Layout, ...]:
    layouts = []
    for ranks, of_ranks in groupby(curve.groups, attrgetter("ranks")):
        base, *others = of_ranks
        for other in others:
            layout_ratio = ratio(base, other.in_unit(base.point.unit))
            layouts.append(
                Layout(
                    ranks,
                    base.point.shape,
                    other.point.shape,
                    _speed(layout_ratio, curve.better),
                    layout_ratio.method,
                )
            )
    return tuple(layouts)


def _speed(layout_ratio: Ratio, better: Better) -> Estimate:
    """A ratio as a speed: that of times is inverted, so that above 1 is faster."""
    sign = 1 if better == "higher" else -1
    return replace(layout_ratio.interval, centre=sign * layout_ratio.interval.centre).estimate(
        "", layout_ratio.confidence
    )

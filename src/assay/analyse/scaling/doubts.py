"""Doubts about a scaling curve: sizes that no scaling law explains, or that are not the same training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assay.records import Doubt, DoubtKind
from assay.units import percent

if TYPE_CHECKING:
    from assay.analyse.scaling.laws import Fit, HoldoutSize
    from assay.analyse.scaling.sizes import Border, Kind, ScalingStep

SURELY_MISSED = 0.01  # probability of the sizes' means under the law, below which a border is named
WORTH_SAYING = 0.02  # a smaller deviation from the curve changes no decision, however certain it is


SUPERLINEAR = DoubtKind(
    code="superlinear",
    subject="sides",
    severity="biased",
    means=(
        "A size is faster than the next smaller one by more than the ratio of their ranks, beyond the runs' "
        "scatter."
    ),
    effect=(
        "The smaller size lost at least that much: whatever is compared with it looks too good, and a law "
        "fitted through it predicts other sizes wrongly."
    ),
    remedy=(
        "Repeat the smaller size on other nodes, with as large a batch per rank as the larger has. If the "
        "effect remains, check whether the smaller size's share of the work fits into memory and cache, and "
        "whether the larger size did the same work."
    ),
    rates=(
        "At most 5 % of curves that scale perfectly raise it, over all steps together "
        "(docs/explanation/statistics.md)."
    ),
)
_BATCH_AND_NODES = "the smaller size on other nodes, with as large a batch per rank as the larger has"


def superlinear(steps: Sequence[ScalingStep], metric: str) -> Iterator[Doubt]:
    """Steps that gain more than their ranks, beyond what the runs' scatter explains.

    At most 5 % of curves that scale perfectly raise it; steps without an interval raise it from 5 % on.
    """
    for step in steps:
        if step.impossible:
            why, what = _cause(step, metric)
            yield SUPERLINEAR.doubt(
                f"{_impossible(step)}{why}",
                (_BATCH_AND_NODES, what),
                ("the smaller size", step.smaller),
                ("the larger size", step.larger),
            )


def _impossible(step: ScalingStep) -> str:
    """`4x8 is 2.18 times as fast as 2x8, but 2 times the ranks can give at most 2: 2x8 lost at least 8 %`."""
    share, most = percent(step.lost), f"{step.at_most:.3g}"
    lost = f"at least {share}" if step.gain.low else f"about {share} or more (too few runs for an interval)"
    return (
        f"{step.larger} is {step.gain.value:.2f} times as fast as {step.smaller}, but {most} times the ranks "
        f"can give at most {most}: {step.smaller} lost {lost}"
    )


def _cause(step: ScalingStep, metric: str) -> tuple[str, str]:
    """What the batch sizes suggest about the cause, and what to repeat to find it."""
    smaller, larger = step.batches
    if metric == "time_to_train" and smaller is not None and larger is not None and smaller != larger:
        return (
            f", to the samples that a batch of {smaller:g} instead of {larger:g} takes, or to something else",
            "both sizes with one global batch, or compare throughput, which does not depend on the target",
        )
    if step.equal_batch is not None:
        return (
            ", to its smaller batch per rank or to something else",
            f"{step.smaller} with a global batch of {step.equal_batch:g} instead of {smaller:g}, per rank "
            f"that of {step.larger}, then on other nodes",
        )
    return "", f"{step.smaller} on other nodes"


OFF_THE_CURVE = DoubtKind(
    code="off-the-curve",
    subject="sides",
    severity="biased",
    means=(
        "No smooth law explains all sizes; one deviates by more than 2 % from the law that the others "
        "follow, and noise does not explain it. If the others follow a law without either of two sizes, as "
        "always with three, a step is named; if sizes on both sides of a border follow one law but for one "
        "loss there, the border."
    ),
    effect="A law fitted through it predicts other sizes wrongly.",
    remedy=(
        "Repeat that size, or both sizes of the step, on other nodes, and look at what is different there: "
        "which nodes, how ranks are placed, which link they share. Where only a step is named, measure a "
        "further size, which tells which of the two is off."
    ),
    rates=(
        "At most 5 % of curves that follow Amdahl's law, the Universal Scalability Law or another smooth one "
        "(docs/explanation/statistics.md) raise it, over all sizes together. Sizes with single runs never do."
    ),
)
_WHICH_SIZE = "that size, or both sizes of the step,"
_ONLY_A_STEP = "Where only a step is named, measure"
_FURTHER_SIZE = f". {_ONLY_A_STEP} a further size, which tells which of the two is off"


def off_the_curve(
    fit: Fit, errors: Sequence[HoldoutSize], *, impossible: bool = False, border: Border | None = None
) -> Iterator[Doubt]:
    """The size that deviates from the law of the others, if noise doesn't explain it.

    impossible  a step gains more than its ranks, which is more informative than another step off the law
    border      a loss at one place that explains the sizes, so that none of them need be slow

    It is named if the others follow a law without it, but not without any other size; otherwise the step
    farthest from the law is named, as with three sizes, of which any two follow a law. At most 5 % of true
    laws raise it (intervals over all sizes together); less than 2 % is not reported.
    """
    off = [e for e in errors if e.beyond and abs(e.error) > WORTH_SAYING]
    missed = fit.misfit is not None and fit.misfit < SURELY_MISSED
    if border is not None and border.lost > WORTH_SAYING and (off or missed):
        yield OFF_THE_CURVE.doubt(
            f"{crossing(border)}; no single size need be slow",
            (_WHICH_SIZE, f"{border.smaller} and {border.larger} ranks"),
            (f". {_ONLY_A_STEP} a further size, which tells which of the two is off", ""),
        )
        return
    if not off:
        return
    explaining = [e for e in errors if e.others_fit]
    if len(explaining) != 1 or explaining[0] not in off:
        if not impossible:
            yield _step_off_the_curve(fit)
        return
    [size] = explaining
    yield OFF_THE_CURVE.doubt(
        f"{size.ranks} ranks are {percent(abs(size.error))} {'slower' if size.error < 0 else 'faster'} "
        "than the curve through the other sizes predicts",
        (_WHICH_SIZE, f"{size.ranks} ranks"),
        (_FURTHER_SIZE, ""),
    )


def crossing(border: Border) -> str:
    """`from 8 to 16 ranks, the border between one node and several, 8.1 % of the speed is lost once`."""
    if border.between_nodes:
        where = "the border between one node and several"
    else:
        where = "maybe a border between nodes, racks or switches"
    lost = f"{percent(border.lost)} of the speed is lost once"
    return f"from {border.smaller} to {border.larger} ranks, {where}, {lost}"


def _step_off_the_curve(fit: Fit) -> Doubt:
    """The step with the lowest gain for its law, because a problem with a size seldom makes it faster."""
    smaller, larger, gain, expected = min(fit.steps(), key=lambda step: step[2] / step[3])
    return OFF_THE_CURVE.doubt(
        f"from {smaller} to {larger} ranks the speed grows by a factor of {gain:.2f}; a law through all "
        f"{len(fit.sizes)} sizes predicts {expected:.2f}. Too few sizes to see which one is off",
        (_WHICH_SIZE, f"{smaller} and {larger} ranks"),
        (_ONLY_A_STEP, "Measure"),
    )


BATCH_DIFFERS = DoubtKind(
    code="batch-differs",
    subject="sides",
    severity="biased",
    means="Time to train is compared over sizes whose global batch differs.",
    effect=(
        "A larger batch takes more samples to the target, so the speed-up mixes convergence with the system."
    ),
    remedy="Judge the system by throughput or time per epoch, or repeat the sizes with one global batch.",
)
_OTHER_METRICS = "Judge the system by throughput or time per epoch, or repeat"


def batch_differs(metric: str, kind: Kind, batches: str, others: Sequence[str]) -> Iterator[Doubt]:
    """Time to train over sizes whose global batch differs: the samples to the target change with it.

    others  metrics of the same runs at every size that don't depend on the number of samples
    """
    if metric == "time_to_train" and kind in ("weak", "mixed"):
        options = " or ".join(f"`--metric {name}`" for name in others)
        yield BATCH_DIFFERS.doubt(
            f"{batches}: a larger batch takes more samples to the target, so the speed-up mixes the two",
            (_OTHER_METRICS, f"Judge the system by {options}, or repeat" if others else "Repeat"),
        )

"""Doubts about a scaling curve: sizes that no law of scaling explains, or that are not the same training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.analyse.batches import Kind
from assay.analyse.doubts.case import percent
from assay.analyse.groups import Group
from assay.analyse.laws import HeldOut
from assay.analyse.ratio import ratio
from assay.records import Better, Doubt, Shape

WORTH_SAYING = 0.02  # a size off the others' curve by less changes no decision, however surely it is off
FALSE_ALARMS = 0.05  # of all sizes of a curve together


def superlinear(groups: Sequence[Group], better: Better) -> Iterator[Doubt]:
    """Sizes faster than so many of the smallest could be, beyond what the runs' scatter explains.

    Of curves that scale perfectly at most 5 % raise it; sizes without an interval raise it from 5 % above.
    """
    first = groups[0]
    larger = [group for group in groups if _ranks(group) > _ranks(first)]
    confidence = 1 - 2 * FALSE_ALARMS / max(1, len(larger))  # one side each, all sizes together
    for group in larger:
        ideal = _ranks(group) / _ranks(first)
        found = ratio(first, group.in_unit(first.point.unit), confidence=confidence).estimate
        low = found.low if better == "higher" else (None if found.high is None else 1 / found.high)
        speedup = found.value if better == "higher" else 1 / found.value
        if (low is None and speedup > 1.05 * ideal) or (low is not None and low > ideal):
            yield Doubt(
                "superlinear",
                f"{group.point.shape} is {speedup:.2f} times as fast as {first.point.shape} "
                f"with {ideal:.3g} times the ranks",
                f"Look at what {first.point.shape} lacks: memory or cache that the work doesn't fit into, "
                "cores taken by something else, another batch size or program",
            )


def off_the_curve(errors: Sequence[HeldOut]) -> Iterator[Doubt]:
    """The size that lies farthest from the law of the others, where noise doesn't explain it.

    At most 5 % of true laws raise it (intervals over all sizes together); less than 2 % off is not said.
    """
    off = [e for e in errors if e.beyond and abs(e.error) > WORTH_SAYING]
    if not off:
        return
    worst = max(off, key=lambda e: abs(e.error))
    yield Doubt(
        "off-the-curve",
        f"{worst.ranks} ranks are {percent(abs(worst.error))} {'slower' if worst.error < 0 else 'faster'} "
        "than the curve through the other sizes has them",
        "Look at what is different at that size: which nodes, how ranks are placed, which link they share",
    )


def batch_differs(metric: str, kind: Kind, batches: str) -> Iterator[Doubt]:
    """Time to train over sizes whose global batch differs: epochs to the target change with it."""
    if metric == "time_to_train" and kind in ("weak", "mixed"):
        yield Doubt(
            "batch-differs",
            f"{batches}: a larger batch takes more samples to the target, so the speed-up mixes the two",
            "Judge the system by time per epoch (`--metric time_per_epoch`)",
        )


def _ranks(group: Group) -> int:
    return Shape.parse(group.point.shape).ranks

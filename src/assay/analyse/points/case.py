"""What a figure or a comparison claims, and the runs that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from assay.analyse.points.groups import Group
from assay.analyse.points.replication import Succession, of_pairs, of_side
from assay.records import Estimate


@dataclass(frozen=True)
class Side:
    """The runs of one side of a claim, with the side's name."""

    name: str
    group: Group

    @cached_property
    def sessions(self) -> list[str]:
        """Sessions of its runs, as `suite/session`."""
        return sorted({f"{s.result.run.suite}/{s.result.run.session}" for s in self.group.samples})


@dataclass(frozen=True)
class Case:
    """A claim with what it rests on: about one set of runs, or about two sets compared with each other.

    estimate  the interval that the claim rests on; a ratio if there are two sides
    margin    the difference that still counts as equal; None if nothing is compared
    paired    the sides were run in the same shuffled blocks
    dropped   blocks left out because they lack a side
    """

    sides: tuple[Side, ...]
    estimate: Estimate
    margin: float | None = None
    paired: bool = False
    dropped: int = 0

    @property
    def is_count(self) -> bool:
        """Whether the metric counts passes over the data, and so takes only values on a grid."""
        return self.sides[0].group.point.unit == "epochs"

    @cached_property
    def successions(self) -> tuple[Succession, ...]:
        """The sequences behind the estimate, in order: the pairs if sides are paired, else each side's runs.

        Empty if a value is not above 0 and so has no logarithm.
        """
        if any(min(side.group.values, default=0) <= 0 for side in self.sides):
            return ()
        if self.paired and len(self.sides) == 2:
            a, b = self.sides
            if len(a.group.samples) != len(b.group.samples):
                return ()  # no block holds both sides, so there are no pairs
            return (of_pairs(f"{b.name} relative to {a.name}", a.group.samples, b.group.samples),)
        return tuple(of_side(side.name, side.group.samples) for side in self.sides)

"""One side's runs at one point of the sweep, summarized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.analyse.points.groups import Group, Key
from assay.analyse.points.ratio import one_side
from assay.records import Estimate, Point


@dataclass(frozen=True)
class Summary:
    """One side's runs at one point: geometric mean with its 95 % interval, and each run's value."""

    side: str
    point: Point
    estimate: Estimate
    values: tuple[float, ...]
    runs: tuple[str, ...]


def summaries_of(side: str, groups: Mapping[Key, Group]) -> list[Summary]:
    """A summary of each point at which the side has results."""
    return [
        Summary(side, g.point, one_side(g), tuple(g.values), tuple(s.result.run.id for s in g.samples))
        for g in groups.values()
        if g.samples
    ]

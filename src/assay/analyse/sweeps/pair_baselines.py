"""Pairs compared with their baselines: what is slow if there are too few nodes to compare with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analyse.sweeps.explanations import explained
from assay.analyse.sweeps.nodes import BaselineChange, slower_than_before
from assay.analyse.sweeps.slow_parts import Blame, Pair, called
from assay.records import Better

Values = Mapping[Pair, Sequence[float]]


def pairs_before(
    now: Values, before: Values, better: Better, margin: float
) -> tuple[tuple[BaselineChange, ...], Blame]:
    """Each pair's change, named as `slow_parts.called` does, and what the slower ones identify.

    A pair is fine if it lost no more than the margin; `explanations.explained` says the rest.

    margin  tolerated loss, as a share above 0. If no healthy pair lost more, anything is reported in at
            most 5 %. Raises ValueError as `slower_than_before`
    """
    names = {called(pair): pair for pair in now}
    values = {name: now[pair] for name, pair in names.items()}
    old = {name: before[pair] for name, pair in names.items()}
    changes = slower_than_before(values, old, better, margin)
    ratios = {names[change.node]: change.ratio.value for change in changes}
    slower = [names[change.node] for change in changes if change.slower]
    fine = [pair for pair, ratio in ratios.items() if ratio >= 1 - margin]
    return changes, explained(ratios, slower, fine)

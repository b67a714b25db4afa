"""Values on the grid of a coarse timer, at any place between two of its ticks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from experiment import AT_MOST_2_5, MARGIN, Experiment

from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import NOTHING_HIDDEN
from assay.analyse.statistics.rounding import hidden_by_rounding

TICKS = (10.3, 20.3)  # ticks per run
SLOWER = 1.03  # B's times over A's
NOISE = 0.01  # spread from run to run
DAYS = {"same": 0.0, "other": 0.05}  # spread that both runs of a pair share
LEAST_SETS = 20


def coarse() -> Iterator[Experiment]:
    """Pairs whose days are alike or differ, and runs that are not paired."""
    for ticks in TICKS:
        for paired, day in ((True, "other"), (True, "same"), (False, "same")):
            design = f"pairs on {day} days" if paired else "unpaired"
            group = f"times of {ticks} ticks, spread 1 %, B 3 % slower, {design}"
            draw = partial(_called_equivalent, ticks, DAYS[day], paired)
            yield Experiment(group, "false equivalent", partial(draw, True), AT_MOST_2_5)
            if paired:
                yield Experiment(group, "without an allowance for the ticks", partial(draw, False))


def _called_equivalent(
    ticks: float, days: float, paired: bool, allowed: bool, rng: np.random.Generator, sets: int, n: int
) -> float:
    """One set at a time, by Assay's own functions: a tenth of the sets."""
    sets, wrong = max(LEAST_SETS, sets // 10), 0
    for _ in range(sets):
        here, day = ticks + rng.random(), days * rng.normal(size=n)
        a, b = (
            np.round(here * times * np.exp(day + NOISE * rng.normal(size=n))).tolist()
            for times in (1.0, SLOWER)
        )
        hidden = hidden_by_rounding(a, b) if allowed else NOTHING_HIDDEN
        logs = np.log(a).tolist(), np.log(b).tolist()
        found = (
            intervals.paired(list(zip(*logs, strict=True)), 0.95, hidden)
            if paired
            else intervals.welch(*logs, 0.95, hidden)
        )
        wrong += found.half is not None and abs(found.centre) + found.half <= np.log1p(MARGIN)
    return wrong / sets

"""Runs in the order in which they ran, as the tests for drift and dependence look at them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from assay.analyse.groups import Sample
from assay.records import Run


@dataclass(frozen=True)
class Succession:
    """What is looked at: logarithms in the order in which the runs ran.

    name      of the side, or of both where they are pairs
    runs      what each value is called: its block, or its run's id
    sessions  lengths of stretches within which the order means something; () where it is not known
    """

    name: str
    logs: tuple[float, ...]
    runs: tuple[str, ...]
    sessions: tuple[int, ...]


def of_pairs(name: str, a: Sequence[Sample], b: Sequence[Sample]) -> Succession:
    """Log-ratios of B over A, block by block."""
    pairs = sorted(zip(a, b, strict=True), key=lambda pair: _when(pair[0]))
    return Succession(
        name,
        tuple(math.log(of_b.value / of_a.value) for of_a, of_b in pairs),
        tuple(f"block {of_a.result.run.trial.block}" for of_a, _ in pairs),
        _stretches([of_a.result.run for of_a, _ in pairs]),
    )


def of_side(name: str, samples: Sequence[Sample]) -> Succession:
    """The logarithms of one side's runs."""
    runs = sorted(samples, key=_when)
    return Succession(
        name,
        tuple(math.log(sample.value) for sample in runs),
        tuple(sample.result.run.trial.id for sample in runs),
        _stretches([sample.result.run for sample in runs]),
    )


def _when(sample: Sample) -> tuple[str, float, int]:
    run = sample.result.run
    return run.session, run.started_at or run.created_at, run.trial.block


def _stretches(runs: list[Run]) -> tuple[int, ...]:
    """Runs of each session in turn; () where others made the logs: the order in which they lie is no time."""
    if any(run.source is not None for run in runs):
        return ()
    return tuple(len(list(same)) for _, same in groupby(runs, key=lambda run: run.session))

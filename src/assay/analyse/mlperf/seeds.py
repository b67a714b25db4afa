"""Seeds that several runs of a set share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from assay.records import Scalar, TrainingRun


def files_by_seed(runs: Sequence[TrainingRun]) -> Mapping[Scalar, Sequence[str]]:
    """Seed → the files of the runs that log it."""
    by_seed: dict[Scalar, list[str]] = defaultdict(list)
    for run in runs:
        if (seed := run.hyperparameters.get("seed")) is not None:
            by_seed[seed].append(run.file)
    return by_seed


def shared_seeds(by_seed: Mapping[Scalar, Sequence[str]]) -> str:
    """The first five seeds of several runs, with their files, as text; "" if there are none."""
    shared = [f"{', '.join(files)} have seed {seed}" for seed, files in by_seed.items() if len(files) > 1]
    return "; ".join(shared[:5])

"""Reads every sample of a data set as a training does, and names those that it can't read.

The loaders are the training's own, so what passes here is what it will accept: the layout when they are
made, each sample when it is read and decoded. Nothing is trained.
"""

from __future__ import annotations

import time
from typing import Any

from torch.utils.data import DataLoader, Dataset

from assay_payloads.datasets.feed import SeededDataset, UnreadableSampleError
from assay_payloads.training.benchmark import TrainingBenchmark

AT_ONCE = 16  # samples that a process reads before it answers
TOLD_EVERY_S = 1.0


class ReadableDataset(Dataset):
    """Instead of each sample, why it can't be read; "" if it can."""

    def __init__(self, data: Any, seed: int) -> None:
        self.data = SeededDataset(data, seed)

    def __getitem__(self, index: int) -> str:
        try:
            self.data[index]
        except UnreadableSampleError as error:
            return str(error)
        return ""


def check(benchmark: TrainingBenchmark) -> None:
    """Read the training set and the evaluation set; print their sizes and every sample that is unreadable."""
    rank = benchmark.rank
    parts = {"training": benchmark.training_data(0), "evaluation": benchmark.evaluation_data()}
    sizes = {"training": benchmark.train_samples(), "evaluation": benchmark.eval_samples()}
    for part, data in parts.items():
        rank.log("checking", part, samples=sizes[part])
        if data is None or hasattr(data, "batch"):  # it was read whole to be made
            rank.log("checked", sizes[part], part=part)
        else:
            check_part(benchmark, part, data)


def check_part(benchmark: TrainingBenchmark, part: str, data: Any) -> None:
    """Every sample of one data set, in order."""
    rank, workers = benchmark.rank, benchmark.options.workers
    loader = DataLoader(
        ReadableDataset(data, benchmark.options.seed),
        batch_size=AT_ONCE,
        sampler=range(len(data)),
        num_workers=min(workers, -(-len(data) // AT_ONCE)),
        collate_fn=list,
    )
    done, reported_at = 0, time.monotonic()
    for reasons in loader:
        done += len(reasons)
        for reason in filter(None, reasons):
            rank.log("unreadable", reason, part=part)
        if time.monotonic() - reported_at >= TOLD_EVERY_S:
            rank.log("checked", done, part=part)
            reported_at = time.monotonic()
    rank.log("checked", done, part=part)

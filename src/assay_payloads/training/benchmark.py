"""What one training benchmark defines: its network, its loss, its data, and its evaluation."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Literal

import torch

from assay_payloads.datasets.feed import Feed, samples_in
from assay_payloads.measuring.rank import Rank


class TrainingBenchmark:
    """What one benchmark defines; `training.train` does everything else, in the same way for all.

    name      as in MLPerf's log
    round     the MLPerf round whose rules its log follows
    sample    plural, the unit of throughput: `images` per second
    quality   the name of its evaluation's result
    progress  what `epoch_num` counts in that round's log
    clip_norm largest norm of the gradient; None: not clipped
    collate   assembles samples into a batch; None: torch's default
    """

    name: str
    round = "v4.0"
    sample = "samples"
    quality = "accuracy"
    higher_is_better = True
    progress: Literal["epochs", "samples"] = "epochs"
    clip_norm: float | None = None
    collate: Callable[..., Any] | None = None

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        self.rank, self.options = rank, options
        micro = options.batch_size * rank.size
        self.global_batch_size: int = options.global_batch_size or micro
        if self.global_batch_size % micro:
            rank.fail(
                f"--global-batch-size {self.global_batch_size} is not a multiple of batches of "
                f"{options.batch_size} on {rank.size} ranks; write a multiple of {micro}"
            )
        self.accumulation = self.global_batch_size // micro

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps in which every training sample is used once."""
        return -(-self.train_samples() // self.global_batch_size)

    @property
    def most_steps(self) -> int:
        """Steps after which a real training gives up, or finishes if it has no target."""
        limit = self.options.max_steps
        return limit if limit is not None else round(self.options.max_epochs * self.steps_per_epoch)

    def model(self) -> torch.nn.Module:
        """The network, on the CPU; the seed is already set."""
        raise NotImplementedError

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the model's parameters, which are on the device."""
        raise NotImplementedError

    def learning_rate(self, step: int) -> float:
        """The learning rate of an optimizer step, from 0; a group's `lr_scale` multiplies it."""
        rate: float = self.options.learning_rate
        return rate

    def loss(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """Mean loss over the terms of one micro-batch, a scalar."""
        raise NotImplementedError

    def weight(self, batch: Any) -> float | torch.Tensor | None:
        """The number of terms in the mean; None: the number of samples."""
        return None

    def samples(self, batch: Any) -> int:
        """The number that counts for throughput: images, or tokens without padding."""
        return samples_in(batch)

    def synthetic(self) -> Any:
        """One micro-batch on the rank's device."""
        raise NotImplementedError

    def training_data(self, epoch: int) -> Any:
        """The training set, as described in feed.py; epochs count from 0."""
        raise NotImplementedError

    def evaluation_data(self) -> Any:
        """The evaluation set, likewise; None if it is read whole when it is made."""
        return None

    def train_samples(self) -> int:
        """Samples in one epoch."""
        raise NotImplementedError

    def eval_samples(self) -> int:
        """Samples in one evaluation."""
        raise NotImplementedError

    def evaluate(self, model: torch.nn.Module) -> Any:
        """The quality reached, the same on all ranks; `self.feed.evaluation(data)` gives a rank its share."""
        raise NotImplementedError

    def reached(self, quality: Any, target: float) -> bool:
        """Whether an evaluation meets the target."""
        return bool(quality >= target if self.higher_is_better else quality <= target)

    def stated(self) -> dict[str, object]:
        """Further facts for the log, including those that the round's rules require.

        If the rules for real trainings require metadata, a fact is a pair: its value and the metadata.
        """
        return {}

    @property
    def feed(self) -> Feed:
        """A data set's batches on this rank's device."""
        return Feed(self.rank, self.options, self.collate)

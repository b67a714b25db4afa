"""A small convolutional network learns handwritten digits until it reaches a target accuracy.

    python -m assay_payloads.training.digits
    torchrun --nproc-per-node 2 -m assay_payloads.training.digits --seed 7

A real training to a target, which takes seconds on one CPU core. The number of epochs depends on the seed;
the time per epoch depends on the system. Epochs, evaluations, and the outcome are logged by MLPerf's rules.
The 1,797 images of 8×8 pixels are sent with the program; digits.md in their folder names their source.
The batch is split over the ranks and gradients are averaged, so only the seed determines the course of the
training, up to rounding, not the number of ranks.
"""

from __future__ import annotations

import argparse
import gzip
import math
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional

from assay_payloads.measuring.rank import END, START, Rank

MOMENTUM = 0.9
TRAIN_SAMPLES, EVAL_SAMPLES = 1344, 453


class Digits:
    """The images (n×1×8×8, 0 to 1) and their digits, with a fixed split into training and evaluation.

    Every fourth image and the last four are for evaluation. That leaves 1,344 = 2⁶·3·7 images, a multiple
    of many batch sizes.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        with gzip.open(path, "rt") as lines:
            rows = torch.tensor([[int(field) for field in line.split(",")] for line in lines])
        index = torch.arange(len(rows))
        held_out = (index % 4 == 0) | (index > len(rows) - 5)
        images = rows[:, :64].float().div_(16).view(-1, 1, 8, 8)
        self.images, self.digits = images[~held_out].to(device), rows[~held_out, 64].to(device)
        self.eval_images, self.eval_digits = images[held_out].to(device), rows[held_out, 64].to(device)


class DigitsTraining:
    """The network, its momentum, and this rank's share of every batch.

    SGD with momentum is written out here: torch.optim and DistributedDataParallel each import torch's
    compiler, which takes longer than the training itself.
    """

    def __init__(self, rank: Rank, data: Digits, options: argparse.Namespace) -> None:
        self.rank, self.data, self.options = rank, data, options
        self.order = torch.Generator().manual_seed(options.seed)
        torch.manual_seed(options.seed)  # the same start on every rank
        nn = torch.nn
        self.network = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 4 * 4, 10)),
        ).to(rank.device)
        self.weights = list(self.network.parameters())
        self.momenta = [torch.zeros_like(weight) for weight in self.weights]

    def gradients(self, batch: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Loss of this rank's share of the batch; gradients averaged over the ranks."""
        share = batch[self.rank.rank :: self.rank.size]
        loss = functional.cross_entropy(self.network(self.data.images[share]), self.data.digits[share])
        gradients = torch.autograd.grad(loss, self.weights)
        if self.rank.size > 1:
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat)
            parts = flat.div_(self.rank.size).split([weight.numel() for weight in self.weights])
            gradients = tuple(part.view_as(w) for part, w in zip(parts, self.weights, strict=True))
        return loss.detach(), gradients

    def train_epoch(self) -> float:
        """One pass over the training images in a new order; returns the mean loss of this rank's shares."""
        order = torch.randperm(TRAIN_SAMPLES, generator=self.order).to(self.rank.device)
        batches = order.split(self.options.global_batch_size)
        total = torch.zeros((), device=self.rank.device)
        for batch in batches:
            loss, gradients = self.gradients(batch)
            total += loss
            with torch.no_grad():
                for weight, momentum, gradient in zip(self.weights, self.momenta, gradients, strict=True):
                    momentum.mul_(MOMENTUM).add_(gradient)
                    weight.sub_(momentum, alpha=self.options.learning_rate)
        return float(total) / len(batches)

    def accuracy(self) -> float:
        """Share of the evaluation images that are recognized; each rank evaluates its part of them."""
        mine = slice(self.rank.rank, None, self.rank.size)
        with torch.no_grad():
            answers = self.network(self.data.eval_images[mine]).argmax(1)
        right = int((answers == self.data.eval_digits[mine]).sum())
        return self.rank.over_ranks([float(right)], "SUM")[0] / EVAL_SAMPLES


def run_to_target(rank: Rank, training: DigitsTraining, options: argparse.Namespace) -> None:
    """Train and evaluate, epoch by epoch, to the target or to the last epoch allowed; print the figures."""
    begin, training_s, accuracy, epoch = rank.clock(), 0.0, 0.0, 0
    rank.log("run_start", event=START)
    while accuracy < options.target and epoch < options.max_epochs:
        epoch += 1
        rank.log("block_start", event=START, first_epoch_num=epoch, epoch_count=1)
        rank.log("epoch_start", event=START, epoch_num=epoch)
        start = rank.clock()
        loss = training.train_epoch()
        training_s += rank.clock() - start
        rank.log("epoch_stop", event=END, epoch_num=epoch)
        rank.log("block_stop", event=END, first_epoch_num=epoch, epoch_count=1)
        if not math.isfinite(loss):
            rank.log("run_stop", event=END, status="aborted", epoch_num=epoch)
            rank.fail(f"loss is {loss}, not finite: training has diverged")
        rank.log("eval_start", event=START, epoch_num=epoch)
        accuracy = training.accuracy()
        rank.log("eval_accuracy", accuracy, epoch_num=epoch)
        rank.log("eval_stop", event=END, epoch_num=epoch)
        rank.log("tracked_stats", {"accuracy": accuracy, "loss": loss}, epoch=epoch)
    reached = accuracy >= options.target
    elapsed = rank.clock() - begin
    rank.log("run_stop", event=END, status="success" if reached else "aborted", epoch_num=epoch)
    elapsed, training_s = rank.over_ranks([elapsed, training_s], "MAX")
    if rank.rank == 0 and reached:
        rank.log("time_to_train", elapsed, unit="s", labels={})
        rank.log("epochs_to_target", epoch, unit="epochs", labels={})
    if rank.rank == 0:
        rank.log("time_per_epoch", elapsed / epoch, unit="s", labels={})
        rank.log("throughput", TRAIN_SAMPLES * epoch / training_s, unit="images/s", labels={})


def state(rank: Rank, options: argparse.Namespace) -> None:
    """Print what MLPerf's rules require a training to state."""
    stated = {
        "submission_benchmark": "digits",
        "submission_division": "open",
        "submission_status": "research",
        "submission_org": "none",
        "submission_platform": "not stated",
        "seed": options.seed,
        "global_batch_size": options.global_batch_size,
        "train_samples": TRAIN_SAMPLES,
        "eval_samples": EVAL_SAMPLES,
        "gradient_accumulation_steps": 1,
        "opt_name": "sgd",
        "opt_base_learning_rate": options.learning_rate,
        "opt_momentum": MOMENTUM,
        "target_accuracy": options.target,
        "precision": "fp32",
    }
    for key, value in stated.items():
        rank.log(key, value)


def main() -> None:
    """Parse the command line and train to the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", type=float, default=0.98, help="accuracy on the evaluation images, 0 to 1"
    )
    parser.add_argument("--global-batch-size", type=int, default=64, help="images per step over all ranks")
    parser.add_argument(
        "--learning-rate", type=float, default=0.02, help="learning rate of SGD with momentum 0.9"
    )
    parser.add_argument("--max-epochs", type=int, default=40, help="give up after this many")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[1] / "datasets" / "digits.csv.gz")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.max_epochs < 1 or not 0 < options.target <= 1 or not options.learning_rate > 0:
        parser.error(
            "--max-epochs must be at least 1, --target above 0 and at most 1, --learning-rate above 0"
        )
    if options.global_batch_size < 1 or TRAIN_SAMPLES % options.global_batch_size:
        parser.error(f"--global-batch-size must divide the {TRAIN_SAMPLES} training images: 32, 64, 96 …")
    rank = Rank()
    if options.global_batch_size % rank.size:
        rank.fail(f"a batch of {options.global_batch_size} can't be split evenly over {rank.size} ranks")
    rank.log("init_start", event=START)
    rank.join(options.device)
    state(rank, options)
    training = DigitsTraining(rank, Digits(options.data, rank.device), options)
    training.gradients(
        torch.arange(options.global_batch_size)
    )  # creates kernels and connections; learns nothing
    rank.log("init_stop", event=END)
    run_to_target(rank, training, options)
    rank.leave()


if __name__ == "__main__":
    main()

"""A small convolutional network learns handwritten digits until it reaches a target accuracy.

    python digits.py
    torchrun --nproc-per-node 2 digits.py --seed 7

A real training to a target that takes seconds on one CPU core: how many epochs it takes depends on the seed,
how long an epoch takes on the system. Epochs, evaluations and the outcome are logged by MLPerf's rules.
The 1,797 images of 8×8 pixels travel beside the program; see README.md in their folder for their source.
The batch is split over the ranks and gradients are averaged, so the seed alone decides the course of the
training up to rounding, not the number of ranks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.nn import functional

# These lines are the same in every payload, so that each travels as one file. ---------------------------
START, END = "INTERVAL_START", "INTERVAL_END"
VARIABLES = (  # rank, size and local rank: torchrun's, else Open MPI's, else Slurm's
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


class Rank:
    """One process of the job: its place, its device, its log, its meetings with the others."""

    def __init__(self) -> None:
        self.rank, self.size, self.local_rank, self._lines = 0, 1, 0, 0
        names = next((names for names in VARIABLES if names[0] in os.environ), None)
        if names is not None:
            try:
                self.rank, self.size, self.local_rank = (int(os.environ[name]) for name in names)
            except (KeyError, ValueError):
                found = ", ".join(f"{name}={os.environ.get(name, '(not set)')}" for name in names)
                self.fail(f"these three must be whole numbers: {found}")
        if not (0 <= self.rank < self.size and self.local_rank >= 0):
            self.fail(f"rank {self.rank} (local {self.local_rank}) of {self.size} ranks can't be")
        if self.size > 1:
            self._check_meeting_place()
        self.log("payload", event=START)

    def _check_meeting_place(self) -> None:
        address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        if not address or not port:
            self.fail(f"{self.size} ranks need MASTER_ADDR and MASTER_PORT; found {address!r} and {port!r}")
        if not (port.isdecimal() and 0 < int(port) < 65536):
            self.fail(f"MASTER_PORT={port} is no port; expected a number from 1 to 65535")
        try:
            socket.getaddrinfo(address, int(port))
        except OSError as error:
            self.fail(f"MASTER_ADDR={address} can't be resolved: {error}")

    def log(self, key: str, value: object = None, event: str = "POINT_IN_TIME", **metadata: object) -> None:
        """Print one MLLOG line: with `unit` a measurement, told from its siblings by `labels`; else a fact.

        A line is written at once, whole, so that ranks that share an output don't mix theirs.
        """
        about: dict[str, object] = {"rank": self.rank, "seq": self._lines, "file": Path(__file__).name}
        about |= {"lineno": sys._getframe(1).f_lineno} | metadata
        entry = {"namespace": "assay", "time_ms": time.time_ns() // 10**6, "event_type": event, "key": key}
        entry |= {"value": value, "metadata": about}
        sys.stdout.write(f":::MLLOG {json.dumps(entry, allow_nan=False)}\n")
        sys.stdout.flush()
        self._lines += 1

    def fail(self, message: str) -> NoReturn:
        """End this rank with exit code 1 and a message: no figure is printed for a failure."""
        sys.exit(f"{Path(__file__).name}: rank {self.rank}: {message}")

    def join(self, device: str, backend: str = "auto") -> None:
        """Take a device (`auto`, `cpu`, `cuda`), meet the other ranks, state what the job runs on."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device("cpu") if device == "cpu" else self._take_gpu()
        if backend == "auto":
            backend = "nccl" if device == "cuda" else "gloo"
        if backend == "nccl" and device == "cpu":
            self.fail("nccl connects GPUs and the device is cpu; use gloo")
        if self.size > 1:
            dist.init_process_group(backend, rank=self.rank, world_size=self.size)
        facts = {"world_size": self.size, "backend": backend if self.size > 1 else "none", "device": device}
        for key, value in (facts | self._software()).items():
            self.log(key, value)

    def _take_gpu(self) -> torch.device:
        count = torch.cuda.device_count()
        if count != 1 and self.local_rank >= count:  # a launcher may show each rank one GPU alone
            self.fail(
                f"no GPU for local rank {self.local_rank}, {count} visible: start fewer ranks or use cpu"
            )
        torch.cuda.set_device(self.local_rank if count > 1 else 0)
        return torch.device("cuda", torch.cuda.current_device())

    def _software(self) -> dict[str, object]:
        facts: dict[str, object] = {"threads": torch.get_num_threads(), "torch_version": torch.__version__}
        if self.device.type == "cpu":
            info = Path("/proc/cpuinfo")
            lines = info.read_text().splitlines() if info.exists() else []
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
            return facts | {"device_name": names[0] if names else platform.machine()}
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else None
        cuda = {"cuda_version": torch.version.cuda, "cudnn_version": torch.backends.cudnn.version()}
        return facts | cuda | {"nccl_version": nccl, "device_name": torch.cuda.get_device_name(self.device)}

    def clock(self) -> float:
        """Seconds on a monotonic clock, once this rank's device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def over_ranks(self, values: list[float], how: str) -> list[float]:
        """Each value's `MAX`, `MIN` or `SUM` over all ranks, on every rank; all of them wait here."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
        combined: list[float] = tensor.tolist()
        return combined

    def leave(self) -> None:
        """Say that the program came to its end and leave the job."""
        self.log("payload", event=END)
        if self.size > 1:
            dist.destroy_process_group()


# End of the lines that are the same in every payload. ----------------------------------------------------


MOMENTUM = 0.9
TRAIN_SAMPLES, EVAL_SAMPLES = 1344, 453


class Digits:
    """The images (n×1×8×8, 0 to 1) and their digits, split once and for all into training and evaluation.

    Every fourth image and the last four are for evaluation; that leaves 1,344 = 2⁶·3·7, which many batch
    sizes divide.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        with gzip.open(path, "rt") as lines:
            rows = torch.tensor([[int(field) for field in line.split(",")] for line in lines])
        index = torch.arange(len(rows))
        held_out = (index % 4 == 0) | (index > len(rows) - 5)
        images = rows[:, :64].float().div_(16).view(-1, 1, 8, 8)
        self.images, self.digits = images[~held_out].to(device), rows[~held_out, 64].to(device)
        self.eval_images, self.eval_digits = images[held_out].to(device), rows[held_out, 64].to(device)


class Training:
    """The network, its momentum, and this rank's share of every batch.

    SGD with momentum stands here in full: torch.optim and DistributedDataParallel each import torch's
    compiler, which would take longer than the training itself.
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
        """Loss of this rank's share of the batch, and gradients averaged over the ranks."""
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
        """One pass over the training images in a new order; the mean loss on this rank's shares."""
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
        """Share of the evaluation images that are recognised; each rank looks at its part of them."""
        mine = slice(self.rank.rank, None, self.rank.size)
        with torch.no_grad():
            answers = self.network(self.data.eval_images[mine]).argmax(1)
        right = int((answers == self.data.eval_digits[mine]).sum())
        return self.rank.over_ranks([float(right)], "SUM")[0] / EVAL_SAMPLES


def run_to_target(rank: Rank, training: Training, options: argparse.Namespace) -> None:
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
    """Print what MLPerf's rules want stated of a training."""
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
    """Read the command line and train to the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", type=float, default=0.98, help="accuracy on the evaluation images, 0 to 1"
    )
    parser.add_argument("--global-batch-size", type=int, default=64, help="images a step over all ranks")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="of SGD with momentum 0.9")
    parser.add_argument("--max-epochs", type=int, default=40, help="give up after so many")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data" / "digits.csv.gz")
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
    training = Training(rank, Digits(options.data, rank.device), options)
    training.gradients(
        torch.arange(options.global_batch_size)
    )  # builds kernels and connections; learns nothing
    rank.log("init_stop", event=END)
    run_to_target(rank, training, options)
    rank.leave()


if __name__ == "__main__":
    main()

"""Training of torchvision's ResNet-50 on synthetic images: images/s of the whole job, by windows of steps.

    python resnet50.py --steps 5 --window 5 --image-size 64 --batch-size 8
    torchrun --nproc-per-node 8 resnet50.py --precision bf16 --batch-size 256 --steps 200

Every rank trains on one batch that was made once on its device, so no disk, decoder or copy takes part.
Gradients are averaged by DistributedDataParallel. Times are taken at the edges of windows alone, when the
devices have done all that they were given; a window lasts as long as on its slowest rank.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
import torchvision
from torchvision.models.resnet import resnet50

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


CLASSES = 1000
AUTOCAST = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def build(rank: Rank, options: argparse.Namespace) -> Callable[[], torch.Tensor]:
    """Model, data and optimiser on the rank's device; gives the function that trains one step."""
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    torch.backends.cudnn.benchmark = True  # shapes never change
    torch.manual_seed(options.seed)
    model = resnet50(weights=None).to(rank.device, memory_format=layout)
    rank.log("gradient_bytes", sum(p.numel() * p.element_size() for p in model.parameters()))
    if rank.size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    torch.manual_seed(options.seed + rank.rank)
    shape = (options.batch_size, 3, options.image_size, options.image_size)
    images = torch.randn(shape, device=rank.device).to(memory_format=layout)
    classes = torch.randint(CLASSES, (options.batch_size,), device=rank.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    kind = rank.device.type
    scaler = torch.amp.GradScaler(kind, enabled=options.precision == "fp16")

    def step() -> torch.Tensor:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(kind, AUTOCAST[options.precision], enabled=options.precision != "fp32"):
            loss = torch.nn.functional.cross_entropy(model(images), classes)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        return loss

    return step


def train_window(rank: Rank, step: Callable[[], torch.Tensor], steps: int) -> tuple[float, float]:
    """Train so many steps: seconds on the slowest rank, and the mean of the ranks' last losses."""
    rank.over_ranks([0.0], "MAX")
    start = rank.clock()
    for _ in range(steps):
        loss = step()
    elapsed = rank.clock() - start
    last_loss = loss.item()
    finite = math.isfinite(last_loss)
    slowest, broken = rank.over_ranks([elapsed, float(not finite)], "MAX")
    if broken:
        rank.fail(f"loss is {last_loss} here and not finite on some rank: training has diverged")
    return slowest, rank.over_ranks([last_loss], "SUM")[0] / rank.size


def train(rank: Rank, options: argparse.Namespace) -> None:
    """Warm up, train by windows, print each, then the figures of the whole."""
    step = build(rank, options)
    if options.warmup:
        train_window(rank, step, options.warmup)
    global_batch_size = options.batch_size * rank.size
    seconds, rates, done = 0.0, [], 0
    while done < options.steps:
        steps = min(options.window, options.steps - done)
        elapsed, loss = train_window(rank, step, steps)
        done += steps
        seconds += elapsed
        rates.append(global_batch_size * steps / elapsed)
        if rank.rank == 0:
            rank.log("tracked_stats", {"throughput": rates[-1], "loss": loss}, step=done)
    if rank.rank == 0:
        if len(rates) > 1:
            rank.log("throughput_spread", (max(rates) - min(rates)) / statistics.median(rates))
        rank.log(
            "throughput", global_batch_size * done / seconds, unit="images/s", labels={}, windows=len(rates)
        )
        rank.log("step_time", seconds / done, unit="s", labels={})


def state(rank: Rank, options: argparse.Namespace) -> None:
    """Print what defines the training beside the machine and the libraries."""
    for name in ("batch_size", "image_size", "precision", "channels_last", "learning_rate", "seed", "warmup"):
        rank.log(name, getattr(options, name))
    rank.log("global_batch_size", options.batch_size * rank.size)
    rank.log("data", "synthetic")
    rank.log("deterministic", torch.are_deterministic_algorithms_enabled())
    rank.log("torchvision_version", torchvision.__version__)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=32, help="images a step on each rank")
    parser.add_argument("--image-size", type=int, default=224, help="height and width in pixels, 32 or more")
    parser.add_argument("--precision", choices=AUTOCAST, default="fp32", help="bf16, fp16: by autocast")
    parser.add_argument("--channels-last", action=argparse.BooleanOptionalAction, default=True, help="NHWC")
    parser.add_argument("--steps", type=int, default=100, help="steps that count")
    parser.add_argument("--warmup", type=int, default=10, help="steps before, that don't count")
    parser.add_argument("--window", type=int, default=10, help="steps between two readings of the clock")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="of SGD with momentum 0.9")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.batch_size, options.steps, options.window) < 1 or options.warmup < 0:
        parser.error("--batch-size, --steps and --window must be at least 1, --warmup at least 0")
    if options.image_size < 32 or (options.batch_size == 1 and options.image_size == 32):
        parser.error(
            "--image-size must be at least 32, or 33 for a batch of one: the last layer needs two values"
        )
    rank = Rank()
    rank.join(options.device)
    state(rank, options)
    train(rank, options)
    rank.leave()


if __name__ == "__main__":
    main()

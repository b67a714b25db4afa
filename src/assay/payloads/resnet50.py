"""Training of torchvision's ResNet-50 on synthetic images: images/s of the whole job, by windows of steps.

    python resnet50.py --steps 5 --window 5 --image-size 64 --batch-size 8
    torchrun --nproc-per-node 8 resnet50.py --precision bf16 --batch-size 256 --steps 200

Every rank trains on one batch that was made once on its device, so no disk, decoder or copy takes part.
Gradients are averaged by DistributedDataParallel. Times are taken at the edges of windows alone, when the
devices have done all that they were given; a window lasts as long as on its slowest rank.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable

import torch
import torchvision
from torchvision.models.resnet import resnet50

from rank import Rank

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

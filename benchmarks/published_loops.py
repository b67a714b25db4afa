"""Training loops that others publish, each on one synthetic batch on the device: what ours is held against.

    python published_loops.py timm --batch-size 32 --precision bf16 --channels-last
    python published_loops.py torchvision --references vision/references --precision fp16

timm          the step of its benchmark.py (1.0), stated again: the script is no part of the wheel
torchvision   the recipe of references/classification: its own train_one_epoch with --references, else its
              loop stated again

Prints windows and the figure as our payloads do.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

Window = Callable[[int], None]
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
CLASSES = 1000


def autocast(options: argparse.Namespace) -> torch.autocast:
    """Mixed precision, where asked for."""
    kind = AUTOCAST.get(options.precision)
    return torch.autocast(options.device, kind, enabled=kind is not None)


def layout(options: argparse.Namespace) -> torch.memory_format:
    """Of images and convolutions."""
    return torch.channels_last if options.channels_last else torch.contiguous_format


def images(options: argparse.Namespace) -> torch.Tensor:
    """One batch on the device."""
    shape = (options.batch_size, 3, options.image_size, options.image_size)
    return torch.randn(shape, device=options.device).contiguous(memory_format=layout(options))


def timm(options: argparse.Namespace) -> Window:
    """As TrainBenchmarkRunner: labels are drawn, and the device is waited for, in every step."""
    from timm.models import create_model
    from timm.optim import create_optimizer_v2

    model = create_model("resnet50", num_classes=CLASSES)
    model.to(device=options.device, memory_format=layout(options)).train()
    if options.compile:
        model = torch.compile(model)
    loss = nn.CrossEntropyLoss().to(options.device)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=1e-4)
    inputs = images(options)

    def window(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with autocast(options):
                output = model(inputs)
                target = torch.empty(len(output), device=options.device, dtype=torch.long).random_(CLASSES)
                loss(output, target).backward()
            optimizer.step()
            synchronise(options)

    return window


def torchvision(options: argparse.Namespace) -> Window:
    """The recipe: mixed precision in fp16 on GPUs alone, NCHW, loss and accuracy read in every step."""
    from torchvision.models import resnet50

    if options.precision not in ("fp32", "fp16") or options.channels_last or options.compile:
        sys.exit("torchvision's recipe has fp32 and, on a GPU, fp16; neither channels_last nor torch.compile")
    if options.precision == "fp16" and options.device == "cpu":
        sys.exit("torchvision's recipe has mixed precision on a GPU alone")
    model, criterion = resnet50(weights=None).to(options.device), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(options.device) if options.precision == "fp16" else None
    batch = images(options), torch.randint(CLASSES, (options.batch_size,), device=options.device)
    if options.references is None:
        return lambda steps: _recipe(model, criterion, optimizer, batch, steps, scaler)
    sys.path.insert(0, str(options.references / "classification"))
    from train import train_one_epoch  # type: ignore[import-not-found]

    settings = argparse.Namespace(print_freq=10, clip_grad_norm=None)
    return lambda steps: train_one_epoch(
        model, criterion, optimizer, [batch] * steps, options.device, 0, settings, None, scaler
    )


def _recipe(
    model: nn.Module,
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, torch.Tensor],
    steps: int,
    scaler: torch.amp.GradScaler | None,
) -> None:
    """The loop of references/classification/train.py, stated again without what is off by default."""
    inputs, target = batch
    model.train()
    for _ in range(steps):
        with torch.autocast(inputs.device.type, torch.float16, enabled=scaler is not None):
            output = model(inputs)
            loss = criterion(output, target)
        optimizer.zero_grad()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        best = output.topk(5, 1).indices.eq(target[:, None])
        _ = loss.item(), best[:, :1].sum().item(), best.sum().item()


def synchronise(options: argparse.Namespace) -> None:
    """Wait until the device has done all that it was given."""
    if options.device == "cuda":
        torch.cuda.synchronize()


def say(key: str, value: object) -> None:
    """One line as our payloads print it."""
    print(json.dumps({"key": key, "value": value}), flush=True)


LOOPS: dict[str, Callable[[argparse.Namespace], Window]] = {"timm": timm, "torchvision": torchvision}


def main() -> None:
    """Warm up, time windows, print each and the whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--references", type=Path, help="directory of torchvision's training scripts")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--precision", choices=["fp32", *AUTOCAST], default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--window", type=int, default=10)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True  # as both scripts have it
    window, rates = LOOPS[options.loop](options), []
    window(options.warmup)
    for _ in range(options.steps // options.window):
        synchronise(options)
        begin = time.perf_counter()
        window(options.window)
        synchronise(options)
        rates.append(options.batch_size * options.window / (time.perf_counter() - begin))
        say("tracked_stats", {"throughput": rates[-1]})
    say("throughput", len(rates) / sum(1 / rate for rate in rates))


if __name__ == "__main__":
    main()

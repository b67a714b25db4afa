"""Published training loops, each on one synthetic batch on the device, for comparison with Assay's.

    python published_loops.py timm --batch-size 32 --precision bf16 --channels-last
    python published_loops.py torchvision --references vision/references --precision fp16

timm          the step of its benchmark.py (1.0), reimplemented: the script is not part of the wheel
transformers  a loop as in its examples without Trainer, on its BertForPreTraining
detection     torchvision's recipe of references/detection on its Mask R-CNN, with its own train_one_epoch
torchvision   the recipe of references/classification: its own train_one_epoch with --references, otherwise
              its loop reimplemented

Prints windows and the figure like Assay's payloads.
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
    """Mixed precision, if requested."""
    kind = AUTOCAST.get(options.precision)
    return torch.autocast(options.device, kind, enabled=kind is not None)


def layout(options: argparse.Namespace) -> torch.memory_format:
    """The memory format of images and convolutions."""
    return torch.channels_last if options.channels_last else torch.contiguous_format


def images(options: argparse.Namespace) -> torch.Tensor:
    """One batch on the device."""
    shape = (options.batch_size, 3, options.image_size, options.image_size)
    return torch.randn(shape, device=options.device).contiguous(memory_format=layout(options))


def timm(options: argparse.Namespace) -> Window:
    """As TrainBenchmarkRunner: every step draws labels and waits for the device."""
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
    """The recipe: mixed precision in fp16 only on GPUs, NCHW, loss and accuracy read in every step."""
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
    """The loop of references/classification/train.py, reimplemented without what is off by default."""
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


def transformers(options: argparse.Namespace) -> Window:
    """A plain loop: the model's own loss over all positions, AdamW; no padding, so all tokens are real."""
    from transformers import BertConfig, BertForPreTraining

    width = options.width
    config = BertConfig(
        vocab_size=30_528,
        hidden_size=width,
        num_hidden_layers=options.layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    model = BertForPreTraining(config).to(options.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    size, device = (options.batch_size, options.length), options.device
    words = torch.randint(config.vocab_size, size, device=device)
    masked = torch.rand(size, device=device) < 0.15
    batch = {"input_ids": words, "attention_mask": torch.ones_like(words), "token_type_ids": words % 2}
    batch |= {"labels": words.masked_fill(~masked, -100), "next_sentence_label": words[:, 0] % 2}

    def window(steps: int) -> None:
        for _ in range(steps):
            with autocast(options):
                loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return window


def detection(options: argparse.Namespace) -> Window:
    """The recipe: mixed precision in fp16 only on GPUs; every step reads every loss."""
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    if options.references is None:
        sys.exit("detection runs torchvision's own loop: name its training scripts with --references")
    if options.precision == "bf16" or (options.precision == "fp16" and options.device == "cpu"):
        sys.exit("torchvision's recipe has fp32 and, on a GPU, fp16")
    small, large = options.min_size, options.min_size * 5 // 3
    sizes = {"min_size": small, "max_size": large, "num_classes": 81}
    model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, **sizes).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(options.device) if options.precision == "fp16" else None
    batch = [objects(small, small * 4 // 3, options.device) for _ in range(options.batch_size)]
    pixels, targets = zip(*batch, strict=True)
    sys.path.insert(0, str(options.references / "detection"))
    from engine import train_one_epoch  # type: ignore[import-not-found]

    def window(steps: int) -> None:
        # epoch 1: the first epoch warms up the learning rate, over as many steps as the data has
        train_one_epoch(model, optimizer, [(pixels, targets)] * steps, options.device, 1, 10, scaler)

    return window


def objects(height: int, width: int, device: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Noise with seven objects, COCO's average per image, in random places."""
    side = torch.tensor([width, height])
    corner = (torch.rand(7, 2) * 0.6 * side).int()
    boxes = torch.cat([corner, corner + 1 + ((0.1 + torch.rand(7, 2) * 0.2) * side).int()], dim=1)
    masks = torch.zeros(7, height, width, dtype=torch.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes.tolist(), strict=True):
        mask[top:bottom, left:right] = 1
    target = {"boxes": boxes.float(), "labels": torch.randint(1, 81, (7,)), "masks": masks}
    return torch.rand(3, height, width).to(device), {name: it.to(device) for name, it in target.items()}


def synchronise(options: argparse.Namespace) -> None:
    """Wait until the device has finished all work."""
    if options.device == "cuda":
        torch.cuda.synchronize()


def say(key: str, value: object) -> None:
    """One line in the format of Assay's payloads."""
    print(json.dumps({"key": key, "value": value}), flush=True)


LOOPS: dict[str, Callable[[argparse.Namespace], Window]] = {
    loop.__name__: loop for loop in (timm, torchvision, transformers, detection)
}


def main() -> None:
    """Warm up, time windows, and print each window and the total."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--references", type=Path, help="directory of torchvision's training scripts")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--length", type=int, default=512, help="of a sample, tokens")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--min-size", type=int, default=800, help="rows that images of detection have")
    parser.add_argument("--precision", choices=["fp32", *AUTOCAST], default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--window", type=int, default=10)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True  # as in both scripts
    window, rates = LOOPS[options.loop](options), []
    samples = options.batch_size * (options.length if options.loop == "transformers" else 1)
    if options.warmup:  # torchvision's loop divides by its number of steps
        window(options.warmup)
    for _ in range(options.steps // options.window):
        synchronise(options)
        begin = time.perf_counter()
        window(options.window)
        synchronise(options)
        rates.append(samples * options.window / (time.perf_counter() - begin))
        say("tracked_stats", {"throughput": rates[-1]})
    say("throughput", len(rates) / sum(1 / rate for rate in rates))


if __name__ == "__main__":
    main()

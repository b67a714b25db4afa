"""ResNet-50 on a GPU: Assay's payload compared with timm's and torchvision's loops; gain of each measure.

    python benchmarks/resnet50_gpu.py                    all tables: about 30 minutes
    python benchmarks/resnet50_gpu.py --only bf16 --blocks 3

Needs one GPU that nothing else uses, a torch built for it, and the extras `torch` and `training`. Same batch,
image size, and number format; synthetic images on the device. timm's loop has the options of its
script that help here (channels_last, autocast, torch.compile); torchvision's recipe computes in fp16 or fp32,
NCHW. --references names torchvision's `references` directory if it can't be downloaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from options import absent, parse
from torchvision_references import references
from training_speed import LOOPS, SMALLEST, Program, program, sizes, tables

FULL = ("--compile", "--cuda-graphs")
# Features that are switched off, one at a time, by an option of the payload.
MEASURES = {
    "without channels_last": ("--no-channels-last",),
    "without the fused optimizer": ("--no-fused",),
    "without torch.compile": ("--no-compile",),
    "without CUDA graphs": ("--no-cuda-graphs",),
    "without torch.compile and CUDA graphs": ("--no-compile", "--no-cuda-graphs"),
    "without bf16 (tf32)": ("--precision", "tf32"),
    "without bf16 (fp32)": ("--precision", "fp32"),
}


def found(options: argparse.Namespace) -> dict[str, list[Program]]:
    """Programs that are measured together, by the table's name; Assay's first."""
    size = ("--image-size", str(options.image_size))

    def ours(name: str, *argv: str) -> Program:
        return program(options, name, "assay_payloads.training.resnet50", *size, *FULL, *argv)

    def loop(name: str, which: str, precision: str, *argv: str) -> Program:
        return program(options, name, LOOPS, which, *size, "--precision", precision, *argv)

    sources = options.references or references()
    recipe = "stated again" if sources is None else "its own train_one_epoch"
    where = () if sources is None else ("--references", str(sources))
    timm = "timm's loop, stated again, channels_last"
    bf16 = ours("assay, bf16, all measures", "--precision", "bf16")
    return {
        "bf16": [
            bf16,
            loop(timm, "timm", "bf16", "--channels-last"),
            loop(f"{timm}, compiled", "timm", "bf16", "--channels-last", "--compile"),
        ],
        "fp16": [
            ours("assay, fp16, all measures", "--precision", "fp16"),
            loop(f"{timm}, compiled", "timm", "fp16", "--channels-last", "--compile"),
            loop(f"torchvision's recipe, {recipe}", "torchvision", "fp16", *where),
        ],
        "measures": [
            bf16,
            *(ours(name, "--precision", "bf16", *argv) for name, argv in MEASURES.items()),
        ],
    }


def main() -> None:
    """Measure and print the tables, or report what is missing."""
    parser = sizes(__doc__, blocks=5, batch_size=256, steps=200, warmup=20, window=50)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--references", type=Path, help="of torchvision's source")
    options = parse(parser, **SMALLEST, image_size=64)
    if not has_gpu():
        absent("a GPU that torch can use")
    options.device, options.threads = "cuda", 1
    print(f"batch {options.batch_size}, {options.image_size}×{options.image_size}")
    tables(options, found(options), sample="images")


def has_gpu() -> bool:
    """Whether torch is installed and can use a GPU."""
    import torch

    return bool(torch.cuda.is_available())


if __name__ == "__main__":
    main()

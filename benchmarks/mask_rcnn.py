"""Mask R-CNN: Assay's payload compared with torchvision's train_one_epoch (references/detection); images/s.

    python benchmarks/mask_rcnn.py
    python benchmarks/mask_rcnn.py --min-size 128 --batch-size 1 --steps 3 --warmup 1 --window 1

On a GPU in fp16 if there is one; otherwise on the CPU in fp32, with small images. Assay's payload runs in
NCHW, torchvision's layout, and also in bf16. Seven objects per image. Needs the extra `training`, and
torchvision's training scripts, which are downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path

from options import absent, parse
from torchvision_references import references
from training_speed import LOOPS, SMALLEST, program, sizes, tables

SIZES = {
    "cuda": {"batch_size": 8, "min_size": 800, "steps": 60, "warmup": 10, "window": 20},
    "cpu": {"batch_size": 1, "min_size": 128, "steps": 3, "warmup": 1, "window": 1},
}


def main() -> None:
    """Measure and print the table."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = sizes(__doc__, blocks=5, **SIZES[device])
    parser.add_argument("--min-size", type=int, help="rows of an image, pixels")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--references", type=Path, help="of torchvision's source")
    options = parse(parser, **SMALLEST, min_size=64)
    options.device = device
    precision = "fp16" if device == "cuda" else "fp32"
    sources = options.references or references()
    if sources is None:
        absent(
            "torchvision's training scripts, whose loop is compared with ours; name them with --references"
        )
    size, most = ("--min-size", str(options.min_size)), str(options.min_size * 5 // 3)
    # the amount of computation depends on the network's proposals, so all learn at the same rate
    ours = ("assay_payloads.training.maskrcnn", *size, "--max-size", most, "--lr-warmup-steps", "1")
    theirs = (LOOPS, "detection", *size, "--references", str(sources))
    found = [
        program(options, f"assay, {precision}", *ours, "--precision", precision),
        program(options, f"torchvision's own loop, {precision}", *theirs, "--precision", precision),
        program(options, f"assay, {precision}, NCHW", *ours, "--precision", precision, "--no-channels-last"),
        program(options, "assay, bf16", *ours, "--precision", "bf16"),
    ]
    print(f"batch {options.batch_size}, {options.min_size} rows, {options.threads} threads")
    tables(options, {precision: found}, sample="images")


if __name__ == "__main__":
    main()

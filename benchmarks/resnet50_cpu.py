"""ResNet-50 on a CPU: Assay's payload compared with timm's and torchvision's loops; gain of each measure.

    python benchmarks/resnet50_cpu.py
    python benchmarks/resnet50_cpu.py --only bf16 --batch-size 8 --image-size 128 --steps 4 --threads 1

Same batch, image size, number format, and threads; synthetic images in memory. timm's loop has the
options of its script that help here; torchvision's recipe computes in fp32 on a CPU. --timm-script also
measures timm's own benchmark.py. Needs the extras `torch` and `training`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from options import parse
from torchvision_references import references
from training_speed import LOOPS, SMALLEST, Program, program, sizes, tables

# Changes, made one at a time by an option of the payload or by variables.
MEASURES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "without channels_last": (("--no-channels-last",), {}),
    "without bf16 (fp32)": (("--precision", "fp32"), {}),
    "without memory kept, in huge pages": (("--no-keep-memory",), {}),
    "without the fused optimizer": (("--no-fused",), {}),
    "without oneDNN's instructions for bf16": ((), {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}),
    "with threads bound to cores": ((), {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}),
    "with torch.compile": (("--compile",), {}),
}


def found(options: argparse.Namespace) -> dict[str, list[Program]]:
    """Programs that are measured together, by the table's name; Assay's first."""
    size = ("--image-size", str(options.image_size))

    def ours(name: str, *argv: str, env: dict[str, str] | None = None) -> Program:
        return program(options, name, "assay_payloads.training.resnet50", *size, *argv, env=env)

    def loop(name: str, which: str, *argv: str) -> Program:
        return program(options, name, LOOPS, which, *size, *argv)

    bf16 = ours("assay, bf16", "--precision", "bf16")
    sources = references()
    recipe = "stated again" if sources is None else "its own train_one_epoch"
    where = () if sources is None else ("--references", str(sources))
    return {
        "fp32": [
            ours("assay, fp32"),
            loop("timm's loop, stated again, channels_last", "timm", "--channels-last"),
            loop(f"torchvision's recipe, {recipe}", "torchvision", *where),
        ],
        "bf16": [
            bf16,
            loop(
                "timm's loop, stated again, channels_last", "timm", "--channels-last", "--precision", "bf16"
            ),
            *timm_script(options),
        ],
        "measures": [
            bf16,
            *(ours(name, "--precision", "bf16", *argv, env=env) for name, (argv, env) in MEASURES.items()),
        ],
    }


def timm_script(options: argparse.Namespace) -> list[Program]:
    """The script from timm, if its path was given."""
    if options.timm_script is None:
        return []
    argv = [sys.executable, str(options.timm_script), "--model", "resnet50", "--bench", "train"]
    argv += ["--device", options.device, "--channels-last", "--amp", "--amp-dtype", "bfloat16"]
    argv += ["--batch-size", str(options.batch_size), "--img-size", str(options.image_size)]
    argv += ["--num-warm-iter", str(options.warmup), "--num-bench-iter", str(max(5, options.steps))]
    threads = {"OMP_NUM_THREADS": str(options.threads)}
    return [Program("timm's benchmark.py", argv, options.batch_size * options.steps, threads)]


def main() -> None:
    """Measure and print the tables."""
    parser = sizes(__doc__, blocks=5, batch_size=16, steps=4, warmup=1, window=1)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timm-script", type=Path, help="benchmark.py of pytorch-image-models")
    options = parse(parser, **SMALLEST, image_size=64, only="fp32")
    options.device = "cpu"
    print(f"batch {options.batch_size}, {options.image_size}×{options.image_size}, {options.threads} threads")
    tables(options, found(options), sample="images")


if __name__ == "__main__":
    main()

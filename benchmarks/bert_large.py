"""Pre-training of BERT-large: Assay's payload compared with a plain loop on transformers' model; tokens/s.

    python benchmarks/bert_large.py
    python benchmarks/bert_large.py --layers 4 --length 128 --batch-size 4 --steps 3 --warmup 1 --window 1

On a GPU if there is one; otherwise on the CPU, with fewer layers and shorter samples. No sample is padded:
all tokens are real ones. Assay's payload uses MLPerf's LAMB and predicts only the masked words; the other
uses AdamW and predicts every word. Needs the extra `training`.
"""

from __future__ import annotations

import os

from options import parse
from training_speed import LOOPS, SMALLEST, program, sizes, tables

SIZES = {
    "cuda": {"batch_size": 32, "length": 512, "layers": 24, "steps": 60, "warmup": 10, "window": 20},
    "cpu": {"batch_size": 4, "length": 128, "layers": 4, "steps": 3, "warmup": 1, "window": 1},
}


def main() -> None:
    """Measure and print the table."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = sizes(__doc__, blocks=5, width=1024, **SIZES[device])
    for name in ("length", "width", "layers"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parse(parser, **SMALLEST, length=16, width=64, layers=1)
    options.device = device
    size = [f"--{name}={getattr(options, name)}" for name in ("length", "width", "layers")]
    heads = [f"--heads={options.width // 64}", f"--feedforward={4 * options.width}"]
    heads += [f"--masked={round(0.15 * options.length)}"]
    tokens = options.batch_size * options.length * options.window
    found = {}
    for precision in ("fp32", "bf16"):
        argv = (*size, "--precision", precision)
        ours = program(options, "assay", "assay_payloads.training.bert", *argv, *heads, samples=tokens)
        plain = "a plain loop on transformers' model"
        found[precision] = [ours, program(options, plain, LOOPS, "transformers", *argv, samples=tokens)]
    print(f"batch {options.batch_size} × {options.length} tokens, {options.layers} layers of {options.width}")
    tables(options, found, sample="tokens")


if __name__ == "__main__":
    main()

"""Pre-training of BERT-large: our payload beside a plain loop on transformers' model; tokens/s.

    python benchmarks/bert_large.py
    python benchmarks/bert_large.py --layers 4 --length 128 --batch-size 4 --steps 3 --warmup 1 --window 1

On a GPU where there is one, else on the CPU, with 4 layers and short samples if nothing is said. No sample is padded: all tokens are real ones. Ours has MLPerf's
LAMB, the other AdamW, and predicts the masked words alone, the other every word. Needs the extra `training`.
"""

from __future__ import annotations

import os

from training_speed import LOOPS, PAYLOADS, program, sizes, tables


def main() -> None:
    """Measure and print the table."""
    import torch

    on_gpu = torch.cuda.is_available()
    parser = sizes(
        __doc__,
        blocks=5,
        batch_size=32 if on_gpu else 4,
        steps=60 if on_gpu else 3,
        warmup=10 if on_gpu else 1,
    )
    parser.set_defaults(window=20 if on_gpu else 1)
    parser.add_argument("--length", type=int, default=512 if on_gpu else 128)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24 if on_gpu else 4)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    options.device = "cuda" if on_gpu else "cpu"
    size = [f"--{name}={getattr(options, name)}" for name in ("length", "width", "layers")]
    heads = [f"--heads={options.width // 64}", f"--feedforward={4 * options.width}"]
    heads += [f"--masked={round(0.15 * options.length)}"]
    tokens = options.batch_size * options.length * options.window
    found = {
        precision: [
            program(options, f"assay, {precision}", PAYLOADS / "bert.py", *argv, *heads, samples=tokens),
            program(
                options, "a plain loop on transformers' model", LOOPS, "transformers", *argv, samples=tokens
            ),
        ]
        for precision in ("fp32", "bf16")
        for argv in [(*size, "--precision", precision)]
    }
    print(
        f"batch {options.batch_size} of {options.length} tokens, {options.layers} layers of {options.width}"
    )
    tables(options, found, sample="tokens")


if __name__ == "__main__":
    main()

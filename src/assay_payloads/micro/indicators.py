"""Performance indicators: small pieces of what training and inference do, seconds each, on any framework.

    python -m assay_payloads.micro.indicators --framework torch --indicators matmul conv2d attention import
    python -m assay_payloads.micro.indicators --framework numpy --dtypes fp32 fp64

Each indicator is warmed up, its result is compared with NumPy's in float64, and its steps are timed until the
device has finished. `import` starts Python and imports the framework.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

from assay_payloads.measuring.rank import Rank
from assay_payloads.micro.indicator_cases import (
    MODULES,
    TOLERANCES,
    IndicatorCase,
    IndicatorFramework,
    Step,
    cases,
    error_of,
    framework,
)

INDICATORS = ("matmul", "conv1d", "conv2d", "attention", "embedding", "optimizer", "data", "import")
ROUNDS = 5
_IMPORTS = 3
_SIZES = {
    "matrix-size": (512, "rows of the matrices"),
    "matrix-batch": (1, "matrices that are multiplied in one step"),
    "batch": (4, "samples of convolutions and attention; data loads eight times as many"),
    "channels": (32, "of the inputs of convolutions"),
    "filters": (32, "of convolutions"),
    "kernel": (3, "width of the filters"),
    "length": (4096, "of the inputs of conv1d"),
    "side": (64, "of the images of conv2d and data"),
    "heads": (8, "of attention"),
    "tokens": (256, "of attention"),
    "head-size": (64, "of attention, and width of the embedding"),
    "vocabulary": (50_000, "rows of the embedding"),
    "lookups": (8192, "rows that one step reads from it"),
    "parameters": (1_000_000, "numbers that the optimizer changes"),
}


def time_steps(step: Step, finish: Step, min_time_s: float) -> float:
    """Seconds of one step: the median of several rounds, each long enough to be timed."""

    def seconds_of(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        finish()
        return time.perf_counter() - start

    seconds_of(2)  # compiles, chooses kernels, raises the clocks
    steps, elapsed = 1, seconds_of(1)
    while elapsed < min_time_s / ROUNDS / 4:
        steps *= 2
        elapsed = seconds_of(steps)
    steps = max(1, round(steps * min_time_s / ROUNDS / elapsed))
    return median(seconds_of(steps) / steps for _ in range(ROUNDS))


def measure(
    rank: Rank, tool: IndicatorFramework, name: str, case: IndicatorCase, dtype: str, min_time_s: float
) -> None:
    """One indicator in one number format: check, time, print."""
    inputs = {key: tool.place(array, dtype) for key, array in case.inputs.items()}
    operation = tool.operations[name]
    error = error_of(tool.array(operation(inputs)), case.right(case.inputs))
    if not error <= TOLERANCES[dtype]:
        rank.fail(
            f"wrong result: {name} {dtype} is off by {error:.3g} of its standard deviation; "
            f"rounding explains at most {TOLERANCES[dtype]:g}"
        )
    last = operation(inputs)

    def step() -> None:
        nonlocal last
        last = operation(inputs)

    seconds = time_steps(step, lambda: tool.finish(last), min_time_s)
    labels = {"indicator": name, "dtype": dtype}
    rank.log("step_time", seconds, unit="s", labels=labels)
    rank.log("byte_rate", case.bytes_of(dtype) / seconds, unit="B/s", labels=labels)
    if case.flop:
        rank.log("flop_rate", case.flop / seconds, unit="FLOP/s", labels=labels)


def measure_import(rank: Rank, module: str) -> None:
    """Time of a new Python that imports the framework, less that of one that imports nothing."""
    seconds = []
    for _ in range(_IMPORTS):
        both = []
        for code in ("pass", f"import {module}"):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            both.append(time.perf_counter() - start)
        seconds.append(both[1] - both[0])
    rank.log("step_time", median(seconds), unit="s", labels={"indicator": "import", "dtype": "none"})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", choices=MODULES, default="torch")
    parser.add_argument("--indicators", nargs="+", choices=INDICATORS, default=list(INDICATORS))
    parser.add_argument("--dtypes", nargs="+", choices=TOLERANCES, default=["fp32"])
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--min-time-s", type=float, default=0.5, help="seconds to time each indicator")
    parser.add_argument("--seed", type=int, default=1)
    for name, (size, description) in _SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=description)
    options = parser.parse_args()
    if min(getattr(options, name.replace("-", "_")) for name in _SIZES) < 1:
        parser.error("sizes must be above 0")
    if options.kernel > min(options.length, options.side):
        parser.error("--kernel must not be larger than --length and --side")
    return options


def main() -> None:
    """Read the command line, measure every indicator."""
    options = _options()
    rank = Rank()
    if rank.size > 1:
        rank.fail("indicators are measured in one process; use the shape 1x1")
    try:
        tool = framework(options.framework, options.device)
    except ValueError as error:
        rank.fail(str(error))
    if missing := [dtype for dtype in options.dtypes if dtype not in tool.dtypes]:
        rank.fail(f"{options.framework} has no {missing[0]}; use {', '.join(tool.dtypes)}")
    for key, value in (("framework", options.framework), ("framework_version", tool.version)):
        rank.log(key, value)
    rank.log("seed", options.seed)
    if "import" in options.indicators:
        measure_import(rank, MODULES[options.framework])
    for name, case in cases(options).items():
        for dtype in options.dtypes:
            measure(rank, tool, name, case, dtype, options.min_time_s)
    rank.leave()


if __name__ == "__main__":
    main()

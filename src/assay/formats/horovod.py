"""What Horovod's synthetic benchmarks print, with PyTorch, TensorFlow or Keras.

    Model: resnet50
    Batch size: 32
    Number of GPUs: 4
    Iter #0: 108.5 img/sec per GPU
    Img/sec per GPU: 108.2 +-1.2
    Total img/sec on 4 GPU(s): 432.8 +-4.9

`+-` is 1.96 standard deviations of the iterations. A total that is not the rate of one worker times the
workers is torn and counted.

Source: horovod/horovod, examples/*/*_synthetic_benchmark.py.
"""

from __future__ import annotations

import re
from statistics import median
from typing import Final

from assay.formats.figures import DIGITS, rounding
from assay.formats.lines import Line, Words, line_tool
from assay.records import Metric


def _is_of_all_workers(texts: Words, before: Words) -> bool:
    """Whether a total is, within printed precision, the rate of one worker times the workers."""
    if not re.fullmatch(DIGITS, texts["workers"]):
        return False
    workers, total = int(texts["workers"]), texts["throughput"]
    worker = before.get("worker_throughput")
    return worker is None or abs(float(total) - workers * float(worker)) <= 1.01 * (
        rounding(total) + workers * rounding(worker)
    )


TOOL: Final = line_tool(
    "horovod",
    mark=r"Img/sec per \w+: |Total img/sec on \d+ |Iter #\d+: .* img/sec per ",
    line="Img/sec per GPU: …",
    phrases=("img/sec", "horovod", "iter #"),
    metrics=(
        Metric("throughput", "images/s", "higher", "images per second of all workers"),
        Metric(
            "worker_throughput",
            "images/s",
            "higher",
            "images per second of one worker, mean over iterations",
            scales=False,
        ),
        Metric(
            "iteration_throughput",
            "images/s",
            "higher",
            "images per second of one worker in one iteration",
            scales=False,
        ),
        Metric(
            "spread", "images/s", "lower", "1.96 standard deviations of one worker's iterations", scales=False
        ),
    ),
    lines=(
        Line(
            r"Total img/sec on {workers} \w+\(s\): {throughput:images/s} \+-\s?{}",
            final="total",
            agrees=_is_of_all_workers,
        ),
        r"Img/sec per \w+: {worker_throughput:images/s} \+-\s?{spread:images/s}",
        r"Iter #{step}: {iteration_throughput:images/s} img/sec per \w+",
        r"(?:^|[\s>:])(?:Model: {model}|Batch size: {batch_size}|Number of \w+: {workers})\s*$",
    ),
    torn=r"Iter #\d+:|[Ii]mg/sec (?:per|on) ",
    unfinished="no line `Total img/sec`: the benchmark did not finish",
    picks={"iteration_throughput": median},
    subject="model",
)

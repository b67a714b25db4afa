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
from pathlib import Path
from statistics import median
from typing import Final

from assay.formats.figures import DIGITS, LogFigure, LogFigures, crash, lines, number, rounding
from assay.formats.tools import Tool
from assay.records import Metric

METRICS: Final = (
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
)

_ITERATION: Final = re.compile(rf"Iter #({DIGITS}): (\S+) img/sec per \w+")
_WORKER: Final = re.compile(r"Img/sec per \w+: (\S+) \+-\s?(\S+)")
_TOTAL: Final = re.compile(rf"Total img/sec on ({DIGITS}) \w+\(s\): (\S+) \+-\s?(\S+)")
_ANY: Final = re.compile(r"Iter #\d+:|[Ii]mg/sec (?:per|on) ")
_FACT: Final = re.compile(r"(?:^|[\s>:])(Model|Batch size|Number of \w+): (\S+)\s*$")


def horovod(path: Path) -> LogFigures:
    """The contents of a log. Raises InputError if it can't be read."""
    log = LogFigures()
    worker: str = ""
    totals = 0
    for line, text in lines(path, log):
        if (match := _TOTAL.search(text)) and _is_total(worker, match):
            totals += 1
            if totals > 1:
                log.again(line, "a second total")
            log.figures.append(_figure("throughput", match[2], line))
            log.facts.setdefault("workers", int(match[1]))
        elif (match := _WORKER.search(text)) and _positive(match[1]) and number(match[2]) is not None:
            worker = match[1]
            log.figures.append(_figure("worker_throughput", match[1], line))
            log.figures.append(_figure("spread", match[2], line))
        elif (match := _ITERATION.search(text)) and _positive(match[2]):
            iteration = float(match[1])
            figure = LogFigure(
                "iteration_throughput", float(match[2]), {}, {"step": iteration}, line, "images/s"
            )
            log.figures.append(figure)
        elif _ANY.search(text):
            log.skipped += 1
        elif match := _FACT.search(text):
            log.facts.setdefault(*_fact(match[1], match[2]))
        elif why := crash(text):
            log.problems.append(f"line {line}: {why}")
    if not totals:
        log.problems.append("no line `Total img/sec`: the benchmark did not finish")
    return log


def _figure(metric: str, text: str, line: int) -> LogFigure:
    return LogFigure(metric, float(text), {}, {}, line, "images/s")


def _positive(text: str) -> bool:
    value = number(text)
    return value is not None and value > 0


def _is_total(worker: str, match: re.Match[str]) -> bool:
    """Whether it is a number and, within printed precision, that of one worker times the workers."""
    if not _positive(match[2]) or number(match[3]) is None:
        return False
    if not worker:
        return True
    workers = int(match[1])
    apart = abs(float(match[2]) - workers * float(worker))
    return apart <= 1.01 * (rounding(match[2]) + workers * rounding(worker))


def _fact(name: str, text: str) -> tuple[str, str | int]:
    key = {"Model": "model", "Batch size": "batch_size"}.get(name, "workers")
    return key, int(text) if re.fullmatch(DIGITS, text) else text


TOOL: Final = Tool(
    "horovod",
    re.compile(rb"Img/sec per \w+: |Total img/sec on \d+ |Iter #\d+: .* img/sec per "),
    line="Img/sec per GPU: …",
    words=("img/sec", "horovod", "iter #"),
    read=horovod,
    metrics=METRICS,
    picks={"iteration_throughput": median},
    subject="model",
)

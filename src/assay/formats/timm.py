"""What timm's train.py and benchmark.py print.

    Train: 9 [1250/1299 ( 96%)]  Loss: 3.821 (3.89)  Time: 0.161s, 6350.47/s  (0.245s, 4182.58/s)  LR: …
    Test: [  48/48]  Time: 0.10 (0.20)  Loss:  0.91 (1.21)  Acc@1:  80.11 ( 77.12)  Acc@5:  94.5 ( 93.1)
    Train benchmark of resnet50 done. 456.78 samples/sec, 561.10 ms/sample

Of two adjacent figures, the first is for the last interval, and the one in parentheses for the epoch so far.
What the training benchmark calls `ms/sample` is the time of a step.

Source: huggingface/pytorch-image-models, train.py (train_one_epoch, validate), benchmark.py, 0.4 to 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from assay.formats.figures import DIGITS, LogFigure, LogFigures, crash, lines, number
from assay.formats.tools import Tool, last
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric(
        "throughput",
        "samples/s",
        "higher",
        "samples per second of all workers, over the epoch so far or the benchmark",
    ),
    Metric(
        "interval_throughput", "samples/s", "higher", "samples per second of all workers in the last interval"
    ),
    Metric(
        "step_time", "s", "lower", "time of one step, over the epoch so far or the benchmark", scales=False
    ),
    Metric("loss", "", None, "training loss over the epoch so far", scales=False),
    Metric("top_1_accuracy", "", "higher", "over the validation so far", scales=False),
    Metric("top_5_accuracy", "", "higher", "over the validation so far", scales=False),
)

_N: Final = r"([^\s,()/]+)"
_TRAIN: Final = re.compile(
    rf"Train: ({DIGITS}) \[ *({DIGITS})/({DIGITS}) .*?\]\s+Loss: +{_N} \( *{_N}\)\s+"
    rf"Time: {_N}s, +{_N}/s +\({_N}s, +{_N}/s\)"
)
_TEST: Final = re.compile(
    rf"Test(?: \(EMA\))?: \[ *\d+/\d+\].*Acc@1: +{_N} \( *{_N}\) +Acc@5: +{_N} \( *{_N}\)"
)
_DONE: Final = re.compile(
    rf"(Inference|Train) benchmark of (\S+) done\. {_N} samples/sec, {_N} ms/(?:step|sample)"
)
_BEGUN: Final = re.compile(
    r"(?:Train: \d+ \[|Test(?: \(EMA\))?: \[|(?:Inference|Train) benchmark of \S+ done)"
)
_MODEL: Final = re.compile(r"(?:^|\s)Model (\S+) created, param count")
_FAILED: Final = re.compile(r'^\s*"error": "(.*)"')
_BEST: Final = "*** Best metric"
_BENCHMARK: Final = re.compile(r"Running (?:train|inference|profile) benchmark on ")
_PROGRESS: Final = re.compile(r"(?:Infer|Train) \[\d+/\d+\]\. ")


def timm(path: Path) -> LogFigures:
    """The contents of a log. Raises InputError if it can't be read."""
    log = LogFigures()
    begun, benchmarks, ended, step = False, 0, False, -1.0
    reached: dict[float, int] = {}  # epoch → its last step, counted from the epoch's first
    for line, text in lines(path, log):
        if why := _failure(text):
            log.problems.append(f"line {line}: {why}")
        elif _BEGUN.search(text):
            figures = list(_figures(text, line, log))
            log.figures += figures
            log.skipped += not figures
            if (match := _TRAIN.search(text)) and figures:
                before, step = step, figures[0].at["step"]
                reached[figures[0].at["epoch"]] = int(match[2])
                if step <= before:
                    log.again(line, f"step {step:.0f} after step {before:.0f}")
        elif _PROGRESS.search(text):
            begun = True  # a benchmark; its last line has the figures
        elif " created, " in text and (match := _MODEL.search(text)):
            log.facts.setdefault("model", match[1])
        ended = ended or _BEST in text
        benchmarks += _begun_benchmarks(text) if " benchmark o" in text else 0
    if benchmarks > 0:
        log.problems.append("no line `benchmark of … done` for the last benchmark: it did not finish")
    elif not ended and any(figure.at for figure in log.figures):
        log.notes += (f"no line `{_BEST}`: the training was stopped, or the log was cut",)
    if any("model" in figure.labels for figure in log.figures):
        log.facts.pop("model", None)  # of a benchmark, which may measure several
    _leave_out_begun_epoch(log, reached)
    if begun:
        return log.missing("no line `benchmark of … done`", "it did not finish")
    return log.missing("no line has a figure")


def _begun_benchmarks(text: str) -> int:
    """1 if a line says that a benchmark begins, -1 if it says that one is done."""
    return (_BENCHMARK.search(text) is not None) - (_DONE.search(text) is not None)


def _failure(text: str) -> str:
    """Why a line says that the program failed; "" if it does not."""
    match = _FAILED.match(text)
    return match[1] if match else crash(text)


def _leave_out_begun_epoch(log: LogFigures, reached: Mapping[float, int]) -> None:
    """Leave out the last epoch's rates if an earlier one got further: an epoch's first steps are slow."""
    if not reached:
        return
    *earlier, last_epoch = reached
    if all(reached[epoch] <= reached[last_epoch] for epoch in earlier):
        return
    so_far = [
        figure
        for figure in log.figures
        if figure.metric in ("throughput", "step_time") and figure.at.get("epoch") == last_epoch
    ]
    log.figures = [figure for figure in log.figures if figure not in so_far]
    log.notes += (
        f"line {so_far[-1].line}: epoch {last_epoch:.0f} did not get as far as an earlier one; its "
        "throughput so far was not used",
    )


def _figures(text: str, line: int, log: LogFigures) -> Iterator[LogFigure]:
    """All figures of a line; empty if it is torn. A loss that is not a number means a failed training."""
    if match := _TRAIN.search(text):
        epoch, step = int(match[1]), int(match[1]) * int(match[3]) + int(match[2])
        rates = [number(match[group]) for group in (6, 7, 8, 9)]
        loss = number(match[5])
        if loss is None and match[5].lower().lstrip("-") in ("nan", "inf"):
            log.problems.append(f"line {line}: the loss is {match[5]}: the training failed")
        if loss is None or None in rates or not all(rate and rate > 0 for rate in rates):
            return
        for metric, value, unit in (
            ("throughput", rates[3], "samples/s"),
            ("interval_throughput", rates[1], "samples/s"),
            ("step_time", rates[2], "s"),
            ("loss", loss, ""),
        ):
            yield LogFigure(
                metric, value or 0.0, {}, {"step": float(step), "epoch": float(epoch)}, line, unit
            )
    elif match := _TEST.search(text):
        labels: dict[str, Scalar] = {"weights": "averaged"} if "(EMA)" in text else {}
        for metric, value in (("top_1_accuracy", number(match[2])), ("top_5_accuracy", number(match[4]))):
            if value is not None and 0 <= value <= 100:
                yield LogFigure(metric, value, labels, {}, line, "%")
    elif match := _DONE.search(text):
        rate, time = number(match[3]), number(match[4])
        if rate and time and rate > 0 and time > 0:
            labels = {"phase": match[1].lower(), "model": match[2]}
            yield LogFigure("throughput", rate, labels, {}, line, "samples/s")
            yield LogFigure("step_time", time, labels, {}, line, "ms")


TOOL: Final = Tool(
    "timm",
    re.compile(
        rb"Train: \d+ \[ *\d+/\d+ |(?:Infer|Train) \[\d+/\d+\]\. .* samples/sec"
        rb"|(?:Inference|Train) benchmark of "
    ),
    line="Train: 0 [ 0/100 …",
    words=("timm", "samples/sec", "acc@1"),
    read=timm,
    metrics=METRICS,
    picks={"top_1_accuracy": last, "top_5_accuracy": last},
    subject="model",
)

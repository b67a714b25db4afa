"""The programs whose logs are recognised by what stands in them, one entry each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from assay.inputs import Log
from assay.logs import (
    deeplearningexamples,
    gpu_burn,
    horovod,
    iperf3,
    nccl_tests,
    nvbandwidth,
    param_comms,
    perftest,
    timm,
)
from assay.logs.figures import LogFigure, LogFigures
from assay.logs.patterns import searcher
from assay.records import Metric

Pick = Callable[[Sequence[float]], float]
_SAME: Final = 0.01  # server and client print one measurement, each as its own clock has it
LONGEST_MARKED: Final = 1 << 16  # bytes of a line that may hold a mark: a JSON report may be one line
_OF_MLPERF: Final = b":::ML"  # such a log is MLPerf's, whatever else its program prints


def _last(values: Sequence[float]) -> float:
    return values[-1]


@dataclass(frozen=True)
class Tool:
    """A program and how its logs are read.

    mark     stands in every log of it and in no other program's
    metrics  the primary one first; () where the program names its own
    picks    of metrics that one run prints several times: what counts of their figures
    """

    name: str
    mark: re.Pattern[bytes]
    read: Callable[[Path], LogFigures]
    metrics: tuple[Metric, ...]
    picks: Mapping[str, Pick] = field(default_factory=dict)


def tools_of(path: Path) -> list[Tool]:
    """The programs whose marks stand in a file. Raises InputError where it can't be read."""
    unseen = {name: searcher(tool.mark) for name, tool in TOOLS.items()}
    for block in Log(path, LONGEST_MARKED).blocks():
        if _OF_MLPERF in block:
            return []
        unseen = {name: stands_in for name, stands_in in unseen.items() if not stands_in(block)}
    return [tool for name, tool in TOOLS.items() if name not in unseen]


TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool("nccl-tests", nccl_tests.MARK, nccl_tests.nccl_tests, nccl_tests.METRICS),
        Tool("perftest", perftest.MARK, perftest.perftest, perftest.METRICS),
        Tool("iperf3", iperf3.MARK, iperf3.iperf3, iperf3.METRICS),
        Tool("param-comms", param_comms.MARK, param_comms.param_comms, param_comms.METRICS),
        Tool("nvbandwidth", nvbandwidth.MARK, nvbandwidth.nvbandwidth, nvbandwidth.METRICS),
        Tool(
            "gpu-burn",
            gpu_burn.MARK,
            gpu_burn.gpu_burn,
            gpu_burn.METRICS,
            {"flop_rate": median, "temperature": max, "power": max},
        ),
        Tool("horovod", horovod.MARK, horovod.horovod, horovod.METRICS, {"iteration_throughput": median}),
        Tool("timm", timm.MARK, timm.timm, timm.METRICS, {"top_1_accuracy": _last, "top_5_accuracy": _last}),
        Tool(
            "deeplearningexamples",
            deeplearningexamples.MARK,
            deeplearningexamples.deeplearningexamples,
            (),
        ),
    )
}


def picked(tool: Tool, figures: Sequence[LogFigure]) -> LogFigure:
    """What counts of figures with equal metric and labels, at least one.

    That is the run's summary where there is one, else what the tool's pick takes, else the last.
    Raises ValueError where they are of several runs.
    """
    stood = [figure for figure in figures if not figure.at] or figures
    metric, last = figures[0].metric, stood[-1]
    values = [figure.value for figure in stood]
    value = tool.picks.get(metric, _last)(values)
    once = tool.metrics and metric not in tool.picks and not last.at
    if once and max(values) - min(values) > _SAME * abs(value):
        raise ValueError(
            f"lines {stood[0].line} and {last.line} have two figures of one {metric}: they are of several "
            "runs; give each a file"
        )
    line = next((figure.line for figure in reversed(stood) if figure.value == value), last.line)
    return LogFigure(metric, value, last.labels, {}, line, last.unit)

"""A program whose logs are recognized, and which of its figures counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.logs.figures import SEVERAL_RUNS, LogFigure, LogFigures
from assay.records import Metric

Pick = Callable[[Sequence[float]], float]
_SAME: Final = 0.01  # server and client print the same measurement, each by its own clock


def last(values: Sequence[float]) -> float:
    """The newest."""
    return values[-1]


@dataclass(frozen=True)
class Tool:
    """A program and how its logs are read.

    mark     occurs in every log of it and in no other program's
    line     what identifies it, for people
    words    from its logs, in lowercase: for what an unrecognized log comes closest to
    metrics  the primary one first; () if the program names its own
    picks    for metrics that one run prints several times: which of their figures counts
    ends     processes that each print the one measurement that they make together
    subject  the fact or label that says what was measured: its model or test; "" if figures need none
    unread   occurs in output of it that is not read; `instead` says how to get output that is
    """

    name: str
    mark: re.Pattern[bytes]
    line: str
    words: tuple[str, ...]
    read: Callable[[Path], LogFigures]
    metrics: tuple[Metric, ...]
    picks: Mapping[str, Pick] = field(default_factory=dict)
    ends: int = 1
    subject: str = ""
    unread: re.Pattern[bytes] | None = None
    instead: str = ""


def picked(tool: Tool, figures: Sequence[LogFigure]) -> LogFigure:
    """Which of the figures with the same metric and labels counts; at least one is given.

    The run's summary if there is one, otherwise the figure that the tool's pick chooses, otherwise the
    newest. Raises ValueError if they are from several runs.
    """
    stood = [figure for figure in figures if not figure.at] or figures
    metric, newest = figures[0].metric, stood[-1]
    values = [figure.value for figure in stood]
    value = tool.picks.get(metric, last)(values)
    once = len(values) > 1 and tool.metrics and metric not in tool.picks and not newest.at
    if once and (len(values) > tool.ends or max(values) - min(values) > _SAME * abs(value)):
        raise ValueError(
            f"lines {stood[0].line} and {newest.line} have two figures of the same {metric}: {SEVERAL_RUNS}"
        )
    line = next((figure.line for figure in reversed(stood) if figure.value == value), newest.line)
    return LogFigure(metric, value, newest.labels, {}, line, newest.unit)

"""Imported logs of programs that Assay recognizes: read, never run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pydantic import Field, field_validator

from assay.errors import PluginError
from assay.formats.figures import LogFigure, few
from assay.formats.reader import Params, Reader
from assay.formats.tools import TOOLS, picked, read_log
from assay.records import Measurement, Metric, Reading, Series
from assay.units import factor


class ToolLogParams(Params):
    """What is known of a log besides its own lines."""

    tool: str = Field(description="The tool that wrote the log.")
    benchmark: str | None = None
    named: tuple[str, ...] = Field(
        (), description="Rates that the program names itself, if it does; the primary one first."
    )

    @field_validator("tool")
    @classmethod
    def _is_known(cls, tool: str) -> str:
        if tool not in TOOLS:
            raise ValueError(f"no reader for logs of {tool!r}; there are readers for {', '.join(TOOLS)}")
        try:
            TOOLS[tool]
        except PluginError as error:
            raise ValueError(str(error)) from None
        return tool


def _metrics(params: ToolLogParams) -> tuple[Metric, ...]:
    """The tool's metrics. Metrics that the program names itself carry their unit with each figure."""
    named = tuple(Metric(name, "", "higher", "as the program names it") for name in params.named)
    return named or TOOLS[params.tool].metrics


def _read(logs: Mapping[str, Path], params: ToolLogParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} logs of one run; expected one",))
    tool = TOOLS[params.tool]
    log = read_log(params.tool, path)
    alike: dict[tuple[str, str], list[LogFigure]] = defaultdict(list)
    for figure in log.figures:
        alike[figure.metric, repr(sorted(figure.labels.items()))].append(figure)
    problems = [f"{name}: {problem}" for problem in few(log.problems)]
    measured = []
    for figures in alike.values():
        try:
            measured.append(_measurement(picked(tool, figures), name))
        except ValueError as error:
            problems.append(f"{name}: {error}")
    counted = Reading(facts=log.facts, skipped_lines=log.skipped, cut_lines=log.cut, notes=log.notes)
    if problems:
        return replace(counted, problems=tuple(problems))
    series = tuple(curve for figures in alike.values() for curve in _series(figures))
    return replace(counted, measurements=tuple(measured), series=series)


def _measurement(figure: LogFigure, file: str) -> Measurement:
    scale, unit = factor(figure.unit)
    return Measurement(figure.metric, figure.value * scale, unit, figure.labels, file, figure.line)


def _series(figures: Sequence[LogFigure]) -> Iterator[Series]:
    """By step; steps must increase, as they do in one run."""
    points = [(figure.at["step"], figure.value) for figure in figures if "step" in figure.at]
    if len(points) > 1 and all(after[0] > before[0] for before, after in pairwise(points)):
        scale, unit = factor(figures[0].unit)
        x, y = zip(*points, strict=True)
        yield Series(figures[0].metric, unit, "step", x, tuple(value * scale for value in y))


TOOL_LOG = Reader(
    name="tool-log",
    params=ToolLogParams,
    metrics=_metrics,
    read=_read,
    version=14,
    formats=True,
)

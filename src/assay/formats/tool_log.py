"""Imported logs of programs that Assay recognizes: read, never run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from assay.errors import PluginError
from assay.formats.figures import LogFigure, LogFigures, few
from assay.formats.logged import LoggedRun, LoggedRuns, Stated, content_of, without_copies
from assay.formats.reader import Params, Reader, finite_reading
from assay.formats.tools import TOOLS, picked, read_log
from assay.records import Measurement, Metric, Reading, Series, Shape
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
            raise ValueError(
                f"no reader for logs of {tool!r}: is the package that adds it installed? "
                f"There are readers for {', '.join(TOOLS)}"
            )
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
    return _reading(read_log(params.tool, path), params.tool, name)


def _reading(log: LogFigures, tool: str, name: str) -> Reading:
    alike: dict[tuple[str, str], list[LogFigure]] = defaultdict(list)
    for figure in log.figures:
        alike[figure.metric, repr(sorted(figure.labels.items()))].append(figure)
    problems = [f"{name}: {problem}" for problem in few(log.problems)]
    measured = []
    for figures in alike.values():
        try:
            measured.append(_measurement(picked(TOOLS[tool], figures), name))
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

UNKNOWN: Final = "unknown"
_NAMES: Final = ("model", "test", "operation")  # facts that say what was run of what the program can run
_RANKS: Final = ("ranks", "workers", "gpus")


def logged_tool_runs(tool: str, paths: Sequence[Path], stated: Stated) -> LoggedRuns:
    """Each log of a tool as a run. Raises InputError if one can't be read."""
    paths, copies = without_copies(paths)
    logs = [(path, read_log(tool, path)) for path in paths]
    about = (tool, stated.system, str(stated.shape), stated.benchmark)
    return LoggedRuns(
        runs=tuple(_logged(path, log, tool, stated) for path, log in logs),
        content=content_of("tool-log", paths, about),
        notes=(*copies, *_notes(logs, tool, stated)),
    )


def _logged(path: Path, log: LogFigures, tool: str, stated: Stated) -> LoggedRun:
    name = next((text for fact in _NAMES if (text := _text_fact(log, fact))), "")
    params = ToolLogParams(tool=tool, benchmark=stated.benchmark, named=_rates(tool, log))
    measured = dict.fromkeys(figure.metric for figure in log.figures)
    declared = [metric.name for metric in _metrics(params)]
    leading = [metric for metric in declared if metric in measured] or declared or [*measured, UNKNOWN]
    return LoggedRun(
        logs=(path,),
        source=str(path),
        reader=TOOL_LOG,
        params=params.model_dump(),
        benchmark=stated.benchmark or f"{tool} {name}".strip(),
        system=stated.system or _text_fact(log, "system"),
        shape=stated.shape or _shape(log) or Shape(1, 1),
        reading=finite_reading(_reading(log, tool, path.name)),
        primary=leading[0],
        started_at=log.started_at,
    )


def _text_fact(log: LogFigures, fact: str) -> str:
    """A fact that the log states as text; "" if it doesn't."""
    value = log.facts.get(fact)
    return value if isinstance(value, str) else ""


def _rates(tool: str, log: LogFigures) -> tuple[str, ...]:
    """Rates that the program named itself, those of the whole before those of a part."""
    if TOOLS[tool].metrics:
        return ()
    rates = dict.fromkeys(figure.metric for figure in log.figures if figure.unit.endswith("/s"))
    return tuple(sorted(rates, key=lambda name: "total" not in name))


def _shape(log: LogFigures) -> Shape | None:
    """Nodes × ranks per node from the log; None if it does not state them, or states what can't be."""
    ranks = next((count for fact in _RANKS if (count := _count(log, fact)) is not None), None)
    nodes = _count(log, "nodes") if "nodes" in log.facts else 1
    if ranks is None or nodes is None or nodes < 1 or ranks % nodes:
        return None
    try:
        return Shape.parse(f"{nodes}x{ranks // nodes}")
    except ValueError:
        return None


def _count(log: LogFigures, fact: str) -> int | None:
    value = log.facts.get(fact)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _notes(logs: Sequence[tuple[Path, LogFigures]], tool: str, stated: Stated) -> Iterator[str]:
    yield from (f"{path}: read as a log of {tool}; unknown lines: {log.skipped}" for path, log in logs)
    yield from (f"{path}: {note}" for path, log in logs for note in log.notes)
    if stated.round is not None:
        yield f"--round is an MLPerf round; it does not apply to {tool} and was ignored"
    if stated.shape is not None:
        return
    for path, log in logs:
        if "ranks_listed" in log.facts:
            rows = f"of {log.facts['ranks']}, according to its rows" if "ranks" in log.facts else ""
            total = rows or "but how many ran is unknown"
            yield f"{path}: lists {log.facts['ranks_listed']} ranks {total}"
    if unsized := sum(_shape(log) is None for _, log in logs):
        yield (
            f"{unsized} of {len(logs)} logs don't say how many devices took part, or say what can't be; they "
            "are stored as 1x1. Set it with --shape"
        )
    if on_one := sum("nodes" not in log.facts and _shape(log) is not None for _, log in logs):
        yield (
            f"{on_one} of {len(logs)} logs don't state their number of nodes; they are stored as one "
            "node. Set it with --shape"
        )

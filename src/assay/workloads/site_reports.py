"""What a program of the site reported through one of Assay's payloads, as measurements.

A report is between two lines with the key `report`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from assay.errors import InputError
from assay.formats.figures import LogFigure, LogFigures, few, whole
from assay.formats.mllog import Event, EventReader
from assay.formats.reader import Reader
from assay.formats.tools import TOOLS, Tool, picked
from assay.records import Measurement, Metric, Reading, Scalar
from assay.units import factor
from assay.workloads import payload_log

KEY: Final = "report"


@dataclass(frozen=True)
class ProgramReport:
    """What one program printed.

    part    which of several outputs: `client`, `server`, `json`
    labels  what it was measured on
    text    the log with everything but this report blanked out, so that lines keep their numbers
    """

    part: str
    labels: dict[str, Scalar]
    text: str


def reports(path: Path) -> Iterator[ProgramReport]:
    """The reports that are complete, in log order. Raises InputError if the log can't be read."""
    spans = list(_spans(path))
    lines = whole(path).split("\n") if spans else []
    for begun, ended in spans:
        between = lines[begun.line : ended.line - 1]
        stated = begun.metadata.get("labels")
        labels = stated.items() if isinstance(stated, dict) else ()
        yield ProgramReport(
            str(begun.value),
            {name: value for name, value in labels if isinstance(value, Scalar)},
            "\n" * begun.line + "\n".join(between),
        )


def _spans(path: Path) -> Iterator[tuple[Event, Event]]:
    begun: Event | None = None
    for event in EventReader(path):
        if event.key == KEY and event.kind == "start":
            begun = event
        elif event.key == KEY and event.kind == "end" and begun is not None:
            yield begun, event
            begun = None


Label = Callable[[Mapping[str, Scalar], Mapping[str, Scalar]], dict[str, Scalar]]
"""Labels of a measurement, from the labels of its report and of the figure in it."""

SERVER: Final = "server"


@dataclass(frozen=True)
class _ParsedReport:
    """One report and its contents; `file` is the log's name."""

    file: str
    report: ProgramReport
    found: LogFigures

    def __str__(self) -> str:
        labels = "".join(f"{name} {value}, " for name, value in self.report.labels.items())
        return f"{self.file}: {labels}"


def _labels_of_both(of_report: Mapping[str, Scalar], of_figure: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {**of_report, **of_figure}


def reported_reader(
    tool: str,
    params: type[BaseModel],
    report: Callable[[str], LogFigures],
    metrics: Callable[[Any], tuple[Metric, ...]],
    label: Label = _labels_of_both,
    version: int = 1,
) -> Reader:
    """Reader of a tool's workload, which is named after the tool; its first metric must be measured.

    report  a report's text → its contents
    """
    return Reader(
        tool,
        params,
        metrics,
        read=lambda logs, own: _read(logs, TOOLS[tool], report, metrics(own)[0], label),
        version=version,
    )


def _read(
    logs: Mapping[str, Path],
    tool: Tool,
    report_of: Callable[[str], LogFigures],
    metric: Metric,
    label: Label,
) -> Reading:
    """Every report except a server's: its client has the same."""
    stated = payload_log.read(logs, ())
    try:
        every = [
            _ParsedReport(name, report, report_of(report.text))
            for name, path in logs.items()
            for report in reports(path)
            if report.part != SERVER
        ]
    except InputError as error:
        return replace(stated, problems=(*stated.problems, str(error)))
    counted = _counted(every)
    problems = [f"{parsed}{why}" for parsed in counted for why in parsed.found.problems]
    measured: list[Measurement] = []
    for parsed in counted:
        try:
            measured += _measured(parsed, tool, label)
        except ValueError as error:
            problems.append(f"{parsed}{error}")
    if not problems and not stated.problems and metric.name not in {m.metric for m in measured}:
        problems.append(f"no report has a figure for {metric.name}")
    return replace(
        stated,
        measurements=() if problems else tuple(measured),
        facts={**_agreed([parsed.found for parsed in every]), **stated.facts},
        problems=(*stated.problems, *few(problems)),
        skipped_lines=stated.skipped_lines + sum(parsed.found.skipped for parsed in counted),
        cut_lines=sum(parsed.found.cut for parsed in counted),
    )


def _counted(every: Sequence[_ParsedReport]) -> list[_ParsedReport]:
    """Of reports with equal labels (a table and the JSON after it), the one with the most figures.

    The last of them if several have as many.
    """
    best: dict[str, _ParsedReport] = {}
    for parsed in every:
        key = repr(sorted(parsed.report.labels.items()))
        if key not in best or len(parsed.found.figures) >= len(best[key].found.figures):
            best[key] = parsed
    return [*best.values()]


def _measured(parsed: _ParsedReport, tool: Tool, label: Label) -> list[Measurement]:
    """Raise ValueError if a metric has two figures for the same labels."""
    alike: dict[tuple[str, str], list[LogFigure]] = defaultdict(list)
    for figure in parsed.found.figures:
        alike[figure.metric, repr(sorted(figure.labels.items()))].append(figure)
    measured = []
    for figures in alike.values():
        figure = picked(tool, figures)
        scale, unit = factor(figure.unit)
        labels = label(parsed.report.labels, figure.labels)
        measured.append(
            Measurement(figure.metric, figure.value * scale, unit, labels, parsed.file, figure.line)
        )
    return measured


def _agreed(logs: Sequence[LogFigures]) -> dict[str, Scalar]:
    """Facts on which all reports that state them agree."""
    facts: dict[str, Scalar] = {}
    for name in dict.fromkeys(name for log in logs for name in log.facts):
        values = {log.facts[name] for log in logs if name in log.facts}
        if len(values) == 1:
            facts[name] = values.pop()
    return facts

"""What a program of the site's reported through one of our payloads, as measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from assay.errors import InputError
from assay.logs.figures import Figure, Found
from assay.logs.reports import Report, reports
from assay.logs.tools import Tool, picked
from assay.records import Measurement, Metric, Reading, Scalar
from assay.units import factor
from assay.workloads import payload_log

Label = Callable[[Mapping[str, Scalar], Mapping[str, Scalar]], dict[str, Scalar]]
"""Labels of a measurement, from those of its report and those of the figure in it."""

SERVER = "server"


def read(
    logs: Mapping[str, Path],
    tool: Tool,
    report: Callable[[str], Found],
    metric: Metric,
    label: Label = lambda of_report, of_figure: {**of_report, **of_figure},
) -> Reading:
    """Every report but a server's, which its client has too.

    report  the tool's reader of a text
    metric  what has to be measured

    Of reports with equal labels (a table and the JSON after it) the one with the most figures counts, the
    last of those that have as many.
    """
    stated = payload_log.read(logs, ())
    try:
        found = [(name, one, report(one.text)) for name, path in logs.items() for one in _of_clients(path)]
    except InputError as error:
        return replace(stated, problems=(*stated.problems, str(error)))
    best: dict[str, tuple[str, Report, Found]] = {}
    for entry in found:
        key = repr(sorted(entry[1].labels.items()))
        if key not in best or len(entry[2].figures) >= len(best[key][2].figures):
            best[key] = entry
    problems = [
        f"{name}: {_named(one.labels)}{why}" for name, one, of in best.values() for why in of.problems
    ]
    measured: list[Measurement] = []
    for name, one, of in best.values():
        try:
            measured += _measured(name, one, of, tool, label)
        except ValueError as error:
            problems.append(f"{name}: {_named(one.labels)}{error}")
    if not problems and not stated.problems and metric.name not in {m.metric for m in measured}:
        problems.append(f"no report has a figure for {metric.name}")
    return replace(
        stated,
        measurements=() if problems else tuple(measured),
        facts={**_agreed([of for _, _, of in found]), **stated.facts},
        problems=(*stated.problems, *payload_log.few(problems)),
        skipped_lines=stated.skipped_lines + sum(of.skipped for _, _, of in best.values()),
    )


def _of_clients(path: Path) -> Iterator[Report]:
    return (one for one in reports(path) if one.part != SERVER)


def _named(labels: Mapping[str, Scalar]) -> str:
    return "".join(f"{name} {value}, " for name, value in labels.items())


def _measured(name: str, one: Report, of: Found, tool: Tool, label: Label) -> Iterator[Measurement]:
    """Raises ValueError where a metric has two figures for the same labels."""
    alike: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for figure in of.figures:
        alike[figure.metric, repr(sorted(figure.labels.items()))].append(figure)
    for figures in alike.values():
        figure = picked(tool, figures)
        scale, unit = factor(figure.unit)
        labels = label(one.labels, figure.labels)
        yield Measurement(figure.metric, figure.value * scale, unit, labels, name, figure.line)


def _agreed(found: list[Found]) -> dict[str, Scalar]:
    """What all reports that say it say alike."""
    facts: dict[str, Scalar] = {}
    for name in dict.fromkeys(name for of in found for name in of.facts):
        values = {of.facts[name] for of in found if name in of.facts}
        if len(values) == 1:
            facts[name] = values.pop()
    return facts

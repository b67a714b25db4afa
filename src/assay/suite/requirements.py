"""Requirements and primary metrics, checked against what the workloads report.

Which metrics a workload reports depends on its parameters, so the caller provides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay import units
from assay.errors import Problem
from assay.records import Expectation, Metric
from assay.suite.findings import Where, unknown
from assay.suite.model import Benchmark, parse_requirement

MetricsOf = Callable[[str, Mapping[str, Any]], Sequence[Metric]]  # (workload, parameters) → its metrics


@dataclass(frozen=True)
class Requirements:
    """The requirements on each benchmark's metrics, by benchmark."""

    expectations: Mapping[str, tuple[Expectation, ...]]
    primary_metric: Mapping[str, str]
    problems: tuple[Problem, ...]


def requirements(
    benchmarks: Iterable[Benchmark],
    expect: Mapping[str, str],
    primary: str | None,
    where: Where,
    metrics_of: MetricsOf,
) -> Requirements:
    """Each benchmark's expectations, in its metrics' own units, and its primary metric.

    expect, primary  the suite's, which apply to every benchmark that reports the metric
    where            path in the suite's file → `suite.yaml:12`
    metrics_of       the metrics that a workload reports for its parameters, the primary one first
    """
    problems: list[Problem] = []
    expectations: dict[str, tuple[Expectation, ...]] = {}
    primaries: dict[str, str] = {}
    reported: dict[str, Metric] = {}
    for benchmark in benchmarks:
        metrics = _metrics(benchmark, metrics_of)
        reported |= metrics
        inherited = {n: text for n, text in expect.items() if n in metrics and n not in benchmark.expect}
        parsed = [_expectation(n, text, metrics, where("expect", n)) for n, text in inherited.items()]
        path = (*benchmark.path, "expect")
        parsed += [_expectation(n, text, metrics, where(*path, n)) for n, text in benchmark.expect.items()]
        problems += [item for item in parsed if isinstance(item, Problem)]
        expectations[benchmark.name] = tuple(item for item in parsed if isinstance(item, Expectation))
        if benchmark.primary is not None and benchmark.primary not in metrics:
            problem = unknown(f"metric of {benchmark.workload}", benchmark.primary, metrics)
            problems.append(Problem(where(*benchmark.path, "primary"), f"primary: {problem}"))
        candidates = [benchmark.primary, primary, *metrics]
        primaries[benchmark.name] = next((name for name in candidates if name in metrics), "")
    for name in expect.keys() - reported.keys():
        problem = unknown("metric of this suite", name, reported)
        problems.append(Problem(where("expect", name), f"expect: {problem}"))
    if primary is not None and primary not in reported:
        problem = unknown("metric of this suite", primary, reported)
        problems.append(Problem(where("primary"), f"primary: {problem}"))
    return Requirements(expectations, primaries, tuple(problems))


def _metrics(benchmark: Benchmark, metrics_of: MetricsOf) -> dict[str, Metric]:
    """Every metric that any point of the benchmark reports, in the order of their first occurrence."""
    metrics: dict[str, Metric] = {}
    for point in benchmark.points:
        for metric in metrics_of(benchmark.workload, point.params):
            metrics.setdefault(metric.name, metric)
    return metrics


def _expectation(name: str, text: str, metrics: Mapping[str, Metric], where: str) -> Expectation | Problem:
    metric = metrics.get(name)
    if metric is None:
        return Problem(where, f"expect: {unknown('metric of this benchmark', name, metrics)}")
    relation, quantity = parse_requirement(text)
    try:
        value = units.convert(quantity.value, quantity.unit, metric.unit)
    except ValueError:
        unit = metric.unit or "a plain number"
        return Problem(where, f"expect.{name}: {text!r} is not in a unit of this metric, which is {unit}")
    return Expectation(name, relation, value, metric.unit, text)

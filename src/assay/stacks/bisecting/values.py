"""From the results of a session to the value of each stack in each block."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from assay.analyse.points.groups import Metrics, group
from assay.records import Result, Run, Stack
from assay.stacks.bisecting.search import Value
from assay.stacks.exploring.measuring import block_mean, by_block, ranking_metrics
from assay.stacks.failures import failure_of
from assay.stacks.stack import stack_of


def block_values(
    results: Sequence[Result], metrics: Metrics, stated: Mapping[str, str], last_line: Callable[[Run], str]
) -> list[dict[str, Value]]:
    """System → value, for each block in order: the logarithm of its speed, higher is better, or its failure.

    stated     benchmark → its primary metric, where the suite states one
    last_line  of a failed run

    A run that failed for a reason that may not be the software has no value. A system whose first run could
    not import its packages failed in every block: the others were not started.
    """
    primary = ranking_metrics(results, metrics, stated)
    blocks = sorted({result.run.trial.block for result in results})
    outcomes: dict[int, dict[str, Value]] = {block: {} for block in blocks}
    for system in dict.fromkeys(result.run.trial.system for result in results):
        own = [result for result in results if result.run.trial.system == system]
        groups = list(group(own, metrics, among=results).values())
        leading = [
            point_group
            for point_group in groups
            if primary.get(point_group.point.benchmark) == point_group.point.metric
        ]
        sign = -1.0 if any(point_group.point.better == "lower" for point_group in leading) else 1.0
        figures = by_block(groups, primary)
        points = max((len(values) for values in figures.values()), default=0)
        for (_, block), values in figures.items():
            if len(values) == points:
                outcomes[block][system] = sign * math.log(block_mean(values))
        failures = {
            result.run.trial.block: _failure(result, last_line) for result in own if not result.counts
        }
        for block, failure in failures.items():
            if failure is not None:
                outcomes[block][system] = failure
        if "does not import" in failures.values():
            for block in blocks:
                outcomes[block].setdefault(system, "does not import")
    return [outcomes[block] for block in blocks]


def _failure(result: Result, last_line: Callable[[Run], str]) -> str | None:
    stack = stack_of(result.provenance) or Stack({}, {})
    return failure_of(result.run, stack, last_line(result.run)) if result.run.state.final else None

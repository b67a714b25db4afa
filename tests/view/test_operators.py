"""Profiles: an operator's time in a step, by side and by shape, the longest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from test_report import plain

import made_results
from assay.records import Measurement, Metric, Result, Run
from assay.view import runs as run_view
from assay.view.contents import Contents, gather
from assay.view.report import tables
from assay.view.runs import operator_tables
from assay.view.terminal import shown as shown_blocks
from assay.workloads.training import OPERATOR_TIME

TIMES = {"here": {"aten::mm": 0.004, "aten::copy_": 0.02}, "there": {"aten::mm": 0.03, "aten::add": 0.001}}


def metrics(run: Run) -> Mapping[str, Metric]:
    return {**made_results.metrics(run), "operator_time": OPERATOR_TIME}


def profiled(result: Result) -> Result:
    own = [
        Measurement("operator_time", seconds, "s", {"operator": name}, "rank-0.log", line)
        for line, (name, seconds) in enumerate(TIMES[result.run.trial.system].items(), 1)
    ]
    return replace(
        result,
        reading=replace(result.reading, measurements=(*result.reading.measurements, *own)),
    )


def contents() -> Contents:
    plan, results = made_results.quickstart(("here", "there"), benchmarks=("resnet50",))
    return gather(made_results.by_system([profiled(r) for r in results]), metrics, plan=plan)


def test_the_report_has_a_table_of_operators_a_column_a_side_the_longest_first() -> None:
    made = contents()
    [table] = operator_tables(made.summaries, tuple(made.sides))
    assert table.columns == ("", "here", "there")
    assert [body.heading for body in table.bodies] == [
        "resnet50 on 1 worker (ms)",
        "resnet50 on 2 workers (ms)",
    ]
    assert [row.cells for row in table.bodies[0].rows] == [
        ("aten::mm", "4.00", "30.00"),
        ("aten::copy_", "20.00", "–"),
        ("aten::add", "–", "1.00"),
    ]
    [runs] = [table for table in tables(made) if table.caption == "All runs"]
    assert not any("operator" in body.title for body in runs.bodies), "they have their own table"


def test_where_nothing_was_profiled_there_is_no_table() -> None:
    plan, results = made_results.quickstart(benchmarks=("resnet50",))
    made = gather(made_results.by_system(results), made_results.metrics, plan=plan)
    assert [*operator_tables(made.summaries, tuple(made.sides))] == []
    assert list(run_view.operators((s.point, s.estimate.value) for s in made.summaries)) == []


def test_the_terminal_has_a_column_a_shape() -> None:
    own = [(s.point, s.estimate.value) for s in contents().summaries if s.side == "here"]
    [shown] = run_view.operators(own)
    text = plain(shown_blocks([shown]))
    lines = [line.split() for line in text.splitlines()]
    assert "resnet50, each operator's own time in one step, ms:" in text
    assert lines[1:] == [["1x1", "2x1"], ["aten::copy_", "20.000", "20.000"], ["aten::mm", "4.000", "4.000"]]

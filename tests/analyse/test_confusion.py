"""Confusion matrices: read from a log, added up over runs, drawn and told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import made_results
from assay.analyse.confusion import cells, evaluated, most_confused
from assay.records import ConfusionMatrix, Reading, Result
from assay.view.charts import charts
from assay.view.contents import gather
from assay.view.sentences.run_details import most_confused as told
from assay.workloads import payload_log

CLASSES = ("sky", "street", "car", "bicycle")
COUNTS = ((90, 10, 0, 0), (1, 190, 9, 0), (0, 5, 15, 0), (0, 0, 0, 0))
MATRIX = ConfusionMatrix(CLASSES, COUNTS)


def read(path: Path, *matrices: tuple[Any, Any]) -> Reading:
    """What is read of a log with these, each as value and classes."""
    log = path / "rank-0.log"
    events = [("payload", "INTERVAL_START", None, {})]
    events += [("confusion_matrix", "POINT_IN_TIME", value, {"classes": names}) for value, names in matrices]
    events += [("payload", "INTERVAL_END", None, {})]
    lines = [
        {
            "time_ms": 1,
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"rank": 0, "seq": n} | more,
        }
        for n, (key, kind, value, more) in enumerate(events)
    ]
    log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
    return payload_log.read({"rank-0.log": log}, [])


def test_the_last_matrix_of_a_log_is_the_run_s(tmp_path: Path) -> None:
    reading = read(tmp_path, ([[1, 0], [1, 0]], ["a", "b"]), (COUNTS, CLASSES))
    assert reading.problems == ()
    assert reading.confusion == MATRIX
    assert read(tmp_path).confusion is None


@pytest.mark.parametrize(
    "wrong",
    [
        ([[1, 2]], ["a", "b"]),
        ([[1, 2], [3]], ["a", "b"]),
        ([[1, 2], None], ["a", "b"]),
        ([[1, -2], [3, 4]], ["a", "b"]),
        ([[1, 2.5], [3, 4]], ["a", "b"]),
        ([[1, True], [3, 4]], ["a", "b"]),
        ([[1, 2], [3, 4]], ["a", "a"]),
        ([[1, 2], [3, 4]], ["a", 7]),
        ([[1, 2], [3, 4]], None),
        (None, ["a", "b"]),
        ([[10**400]], ["a"]),
    ],
)
def test_what_is_no_square_of_counts_is_a_problem_of_its_run(tmp_path: Path, wrong: tuple[Any, Any]) -> None:
    reading = read(tmp_path, (COUNTS, CLASSES), wrong)
    assert reading.confusion is None
    assert reading.problems == (
        "rank-0.log:3: confusion_matrix is not a square of counts with one class per row",
    )


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(st.integers(0, 99), min_size=n, max_size=n),
                                                    min_size=n, max_size=n)))  # fmt: skip
def test_shares_of_a_true_class_add_up_to_one_and_classes_that_never_occur_have_none(
    counts: list[list[int]],
) -> None:
    matrix = ConfusionMatrix(tuple(f"{n}" for n in range(len(counts))), tuple(map(tuple, counts)))
    by_class: dict[str, float] = {}
    for cell in cells(matrix):
        by_class[cell.true] = by_class.get(cell.true, 0) + cell.share
    assert list(by_class) == [f"{n}" for n, row in enumerate(counts) if any(row)]
    assert list(by_class.values()) == pytest.approx([1.0] * len(by_class))


def test_the_worst_pair_is_the_one_with_the_largest_share_not_the_largest_count() -> None:
    assert [(c.true, c.predicted, c.count, c.of) for c in most_confused(MATRIX, 2)] == [
        ("car", "street", 5, 20),
        ("sky", "street", 10, 100),
    ]
    assert list(told(MATRIX))[:2] == ["25 % of car predicted as street", "10 % of sky predicted as street"]
    perfect = ConfusionMatrix(("a", "b"), ((3, 0), (0, 4)))
    assert list(told(perfect)) == ["no class was confused with another"]


def with_matrix(result: Result, matrix: ConfusionMatrix | None) -> Result:
    return replace(result, reading=replace(result.reading, confusion=matrix))


def test_runs_at_one_point_are_added_up_and_those_that_do_not_count_are_left_out() -> None:
    _, results = made_results.quickstart(("here",), (made_results.ONE,), ("resnet50",), blocks=3)
    made = [with_matrix(result, MATRIX) for result in results]
    [found] = evaluated([made[0], made[1], made_results.failed(made[2], "died")])
    assert (found.runs, found.matrix.classes) == (2, CLASSES)
    assert found.matrix.counts == tuple(tuple(2 * count for count in row) for row in COUNTS)
    others = ConfusionMatrix(("x",), ((1,),))
    assert [e.runs for e in evaluated([*made, with_matrix(results[0], others)])] == [3, 1]
    assert evaluated(results) == []


def test_the_page_draws_a_matrix_a_side_without_classes_that_were_neither_seen_nor_predicted() -> None:
    plan, results = made_results.quickstart(shapes=(made_results.ONE,), benchmarks=("resnet50",))
    made = [with_matrix(result, MATRIX) for result in results]
    contents = gather(made_results.by_system(made), made_results.metrics, plan=plan)
    drawn = [chart for chart in charts(contents) if chart.kind == "confusion"]
    assert len(drawn) == 2
    chart = drawn[0]
    about = (
        "resnet50 evaluated, here, 1 worker: predicted class for each true class, in %; "
        "4 runs combined; 1 of 4 classes did not occur"
    )
    assert chart.caption == about
    assert chart.words.startswith("25 % of car predicted as street; 10 % of sky")
    found = {(c["row"], c["column"]): (c["text"], c["count"]) for c in chart.spec["datasets"]["cells"]}
    assert found["sky", "sky"] == ("90", "360 of 400")
    assert found["sky", "car"] == ("", "0 of 400")
    assert {name for pair in found for name in pair} == {"sky", "street", "car"}

"""Logs that DLLogger writes, on the terminal and as JSON, whole and spoilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.logs.deeplearningexamples import deeplearningexamples
from assay.logs.figures import LogFigures

AT = "DLL 2024-08-02 12:42:44.292511 - "
STEP = AT + "Epoch: 1 Iteration: 97  train.loss : 2.32500 None train.compute_ips : 3099.36 images/s\n"
SUMMARY = AT + "Summary: train.loss : 2.31000 None train.compute_ips : 3101.20 img/s val.top1 : 76.12 %\n"
LOG = AT + "PARAMETER batch_size : 256 \n" + STEP + SUMMARY
DEFAULTS = (
    AT
    + "(1, 97) loss : 2.3  ips : 3099.36 images/s\n"
    + AT
    + "() e2e_train_time : 61.5 s ips : 3101.2 images/s\n"
)


def line(**told: object) -> str:
    return (
        "DLLL "
        + json.dumps({"timestamp": "1.0", "datetime": "2024-08-02", "elapsedtime": "1.0"} | told)
        + "\n"
    )


JSON = (
    line(type="METADATA", metric="train.compute_ips", metadata={"unit": "images/s", "format": ":.2f"})
    + line(type="LOG", step="PARAMETER", data={"batch_size": 256})
    + line(type="LOG", step=[1, 97], data={"train.loss": 2.325, "train.compute_ips": 3099.36})
    + line(type="LOG", step=[], data={"train.loss": 2.31, "train.compute_ips": 3101.2})
)


def read(tmp_path: Path, text: str) -> LogFigures:
    log = tmp_path / "log"
    log.write_text(text)
    return deeplearningexamples(log)


def rates(found: LogFigures) -> list[tuple[float, str, dict[str, float]]]:
    return [
        (f.value, f.unit, {str(axis): x for axis, x in f.at.items()})
        for f in found.figures
        if f.metric.endswith("ips")
    ]


@pytest.mark.parametrize("text", [LOG, DEFAULTS, JSON], ids=["ConvNets' words", "default words", "JSON"])
def test_steps_and_the_summary_are_told_apart(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert rates(found) == [
        (3099.36, "images/s", {"epoch": 1.0, "step": 97.0}),
        (3101.2, "images/s", {}),
    ]
    assert (found.problems, found.skipped) == ([], 0)


def test_units_and_parameters_are_as_the_program_says(tmp_path: Path) -> None:
    found = read(tmp_path, LOG)
    assert {(f.metric, f.unit) for f in found.figures} == {
        ("train.loss", ""),
        ("train.compute_ips", "images/s"),
        ("val.top1", "%"),
    }
    assert found.facts == {"batch_size": "256"}
    assert [f.unit for f in read(tmp_path, DEFAULTS).figures if f.metric == "loss"] == [""]


@pytest.mark.parametrize(
    "torn",
    [
        STEP.replace("3099.36", "None"),
        STEP.replace("3099.36", "N/A"),
        "DLL 2024-08-02 12:4\n",
        AT + "Epo train.compute_ips : 3099.36 images/s\n",
        JSON.splitlines()[2][:-9] + "\n",
    ],
)
def test_a_torn_line_is_counted_and_never_a_number(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, torn + SUMMARY)
    assert rates(found) == [(3101.2, "images/s", {})]
    assert found.skipped == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STEP, "did not come to its end"),
        (STEP.replace("2.32500", "nan") + SUMMARY, "no training"),
        (LOG + "Traceback (most recent call last):\n", "traceback"),
    ],
)
def test_what_failed_or_measured_nothing_is_a_problem(tmp_path: Path, text: str, words: str) -> None:
    assert words in read(tmp_path, text).problems[0]


@given(text=st.text(max_size=100), where=st.integers(0, len(JSON)))
def test_whatever_falls_into_a_file_of_json_is_read_without_an_exception(
    tmp_path_factory: pytest.TempPathFactory, text: str, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(JSON[:where] + text + JSON[where:], errors="replace")
    found = deeplearningexamples(log)
    assert len(found.figures) <= 4 or text

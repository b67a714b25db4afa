"""Logs that DLLogger writes, on the terminal and as JSON, whole and spoilt."""

from __future__ import annotations

import json

import pytest

from assay.formats.figures import LogFigures
from assay.testing.formats import Read, ReaderContract

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


WITHOUT_RATE = STEP.replace(" train.compute_ips : 3099.36 images/s", "")
TORN = (
    "DLL 2024-08-02 12:4\n",
    AT + "Epo train.compute_ips : 3099.36 images/s\n",
    JSON.splitlines()[2][:-9] + "\n",
)


def rates(found: LogFigures) -> list[tuple[float, str, dict[str, float]]]:
    return [
        (f.value, f.unit, {str(axis): x for axis, x in f.at.items()})
        for f in found.figures
        if f.metric.endswith("ips")
    ]


class TestDeepLearningExamples(ReaderContract):
    tool = "deeplearningexamples"
    whole = (LOG, DEFAULTS, JSON)
    torn = (
        *((STEP.replace("3099.36", word) + SUMMARY, WITHOUT_RATE + SUMMARY) for word in ("None", "N/A")),
        *((line + SUMMARY, SUMMARY) for line in TORN),
    )
    failed = (
        (STEP, "did not finish"),
        (STEP.replace("2.32500", "nan") + SUMMARY, "the training failed"),
        (LOG + "Traceback (most recent call last):\n", "traceback"),
    )

    @pytest.mark.parametrize("text", [LOG, DEFAULTS, JSON], ids=["ConvNets' words", "default words", "JSON"])
    def test_steps_and_the_summary_are_told_apart(self, read: Read, text: str) -> None:
        found = read(text)
        assert rates(found) == [
            (3099.36, "images/s", {"epoch": 1.0, "step": 97.0}),
            (3101.2, "images/s", {}),
        ]
        assert (found.problems, found.skipped) == ([], 0)

    def test_units_and_parameters_are_as_the_program_says(self, read: Read) -> None:
        found = read(LOG)
        assert {(f.metric, f.unit) for f in found.figures} == {
            ("train.loss", ""),
            ("train.compute_ips", "images/s"),
            ("val.top1", "%"),
        }
        assert found.facts == {"batch_size": "256"}
        assert [f.unit for f in read(DEFAULTS).figures if f.metric == "loss"] == [""]

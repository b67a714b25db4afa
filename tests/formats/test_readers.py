"""Readers of logs that others made: known by the names that runs have kept; a suite can run none of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay import read
from assay.errors import InputError
from assay.formats.reader import IMPORTED, Params, Reader
from assay.plan import task_of
from assay.records import Measurement, Reading, Series, Shape, TrainingRun, to_json
from assay.rundir.imported import imported_run, imported_trial
from assay.workloads import WORKLOADS, micro


def test_the_names_that_kept_runs_have_are_still_read() -> None:
    assert sorted(IMPORTED) == ["loadgen", "mlperf", "numbers", "tf-cnn-benchmarks", "tool-log"]


def test_no_workload_takes_the_name_of_an_imported_log() -> None:
    assert not IMPORTED.keys() & WORKLOADS.keys()


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_run_has_a_reader_and_no_task(name: str, tmp_path: Path) -> None:
    params = {"tool": "horovod"} if name == "tool-log" else {}
    run = imported_run(imported_trial("set", "set", name, "here", Shape(1, 1), params), "log")
    log = tmp_path / "log"
    log.write_text("nothing of any program\n")
    reading = read.read({log.name: log}, run)
    assert reading.problems
    assert not reading.measurements
    assert read.metrics(run)
    with pytest.raises(InputError, match=f'"{name}" is not a workload'):
        task_of(run.trial)


def test_a_run_whose_reader_this_assay_lacks_is_no_result_and_says_which(tmp_path: Path) -> None:
    run = imported_run(imported_trial("set", "set", "abacus", "here", Shape(1, 1), {}), "log")
    assert "has no workload 'abacus'" in read.read({}, run).problems[0]
    assert (dict(read.metrics(run)), read.flops(run)) == ({}, None)


def test_parameters_that_a_reader_no_longer_takes_are_named(tmp_path: Path) -> None:
    run = imported_run(imported_trial("set", "set", "mlperf", "here", Shape(1, 1), {"colour": "red"}), "log")
    assert "colour" in read.read({}, run).problems[0]
    assert dict(read.metrics(run)) == {}


def test_a_reader_that_changed_reads_its_own_runs_again_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = [read.read_by(name) for name in ("digits", "mlperf", "of-a-newer-assay")]
    before = read.read_by("matmul")
    assert all(map(read.is_current, [before, *others]))
    changed = replace(micro.MATMUL.reader, version=99)
    monkeypatch.setattr(micro, "MATMUL", replace(micro.MATMUL, reader=changed))
    assert not read.is_current(before)
    assert all(map(read.is_current, others))
    assert not read.is_current("damaged")


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_found_under_its_own_name(name: str) -> None:
    assert WORKLOADS[name].name == name


MEASURED = Measurement("rate", 1.0, "images/s", {}, "log", 3)
TRAINING = TrainingRun(
    "log", "success", "", None, None, 1.0, None, None, None, None, None, ((1.0, 0.5),), {"seed": 1}
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Reading((replace(MEASURED, value=float("inf")),)), "log:3: rate is inf, not a finite number"),
        (Reading((replace(MEASURED, labels={"lr": float("nan")}),)), "log:3: the label lr of rate is nan"),
        (Reading(series=(Series("loss", "", "step", (1.0,), (float("nan"),)),)), "loss over its steps"),
        (Reading(training=replace(TRAINING, samples=float("inf"))), "its training"),
        (OverflowError("int too large to convert to float"), "a number in it is too large"),
    ],
    ids=["figure", "label", "series", "training", "arithmetic"],
)
def test_what_a_reader_makes_of_an_absurd_number_is_a_problem_of_that_run_alone(
    found: Reading | OverflowError, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absurd(_logs: Any, _params: Any) -> Reading:
        if isinstance(found, OverflowError):
            raise found
        return found

    reader = Reader("absurd", Params, lambda _params: (), absurd)
    monkeypatch.setattr(read, "IMPORTED", {"absurd": ""})
    monkeypatch.setattr(read, "imported", lambda _place: reader)
    run = imported_run(imported_trial("set", "set", "absurd", "here", Shape(1, 1), {}), "log")
    reading = read.read({"log": tmp_path}, run)
    assert words in reading.problems[0]
    assert (reading.measurements, reading.series, reading.training) == ((), (), None)


def test_a_setting_that_is_no_finite_number_is_kept_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"clip": float("inf"), "seed": 1}
    found = Reading((MEASURED,), facts=settings, training=replace(TRAINING, hyperparameters=settings))
    reader = Reader("settings", Params, lambda _params: (), lambda _logs, _params: found)
    monkeypatch.setattr(read, "IMPORTED", {"settings": ""})
    monkeypatch.setattr(read, "imported", lambda _place: reader)
    run = imported_run(imported_trial("set", "set", "settings", "here", Shape(1, 1), {}), "log")
    reading = read.read({"log": tmp_path}, run)
    assert (reading.problems, reading.measurements) == ((), (MEASURED,))
    assert reading.facts == {"clip": "inf", "seed": 1}
    assert to_json(reading)

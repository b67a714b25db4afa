"""Readers of logs that others made: known by the names that runs have kept; a suite can run none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import read
from assay.errors import InputError
from assay.intake.sessions import imported_run, imported_trial
from assay.plan import task_of
from assay.readers import IMPORTED
from assay.records import Shape
from assay.workloads import WORKLOADS


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
    with pytest.raises(InputError, match=f'"{name}" is no workload'):
        task_of(run.trial)


def test_a_run_whose_reader_this_assay_lacks_is_no_result_and_says_which(tmp_path: Path) -> None:
    run = imported_run(imported_trial("set", "set", "abacus", "here", Shape(1, 1), {}), "log")
    assert "knows no workload 'abacus'" in read.read({}, run).problems[0]
    assert (dict(read.metrics(run)), read.flops(run)) == ({}, None)


def test_parameters_that_a_reader_no_longer_takes_are_named(tmp_path: Path) -> None:
    run = imported_run(imported_trial("set", "set", "mlperf", "here", Shape(1, 1), {"colour": "red"}), "log")
    assert "colour" in read.read({}, run).problems[0]
    assert dict(read.metrics(run)) == {}

"""A whole round of MLPerf Storage, held to the scores in the submitters' own reports."""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path

import pytest

from assay import api
from assay.questions.evidence import run_set
from conftest import require


@pytest.fixture(scope="module")
def results(mlperf_rounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = mlperf_rounds / "storage_v1.0.tar.xz"
    require("mlperf-rounds", archive.is_file(), f"no {archive.name} in {mlperf_rounds}")
    place = tmp_path_factory.mktemp("storage")
    with tarfile.open(archive) as packed:
        wanted = ("summary.json", "mlperf_storage_report.json", "overrides.yaml")
        packed.extractall(place, [one for one in packed if one.name.endswith(wanted)], filter="data")
    return place / "storage_results_v1.0"


@pytest.mark.long
def test_each_run_of_the_round_has_the_throughput_of_its_submitters_report(
    results: Path, tmp_path: Path
) -> None:
    [session] = api.import_(results, name="round", runs=tmp_path).sessions
    assert len(session.runs) == 661
    [copy] = [note for note in session.notes if "with the same bytes" in note]
    assert copy.endswith("it counts once")
    assert [run for run in session.runs if run.state.value != "finished"] == []
    stated = {
        run["train_throughput_samples_per_second"]
        for report in results.rglob("mlperf_storage_report.json")
        if "code" not in report.parts
        for run in json.loads(report.read_text())["runs"].values()
    }
    measured = {
        one.value
        for result in run_set(tmp_path, "round").results
        for one in result.reading.measurements
        if one.metric == "throughput"
    }
    assert len(stated) > 600
    missing = [x for x in stated if not any(math.isclose(x, y, rel_tol=1e-9) for y in measured)]
    assert missing == []


def test_systems_and_workloads_are_those_of_the_folders(results: Path, tmp_path: Path) -> None:
    [session] = api.import_(results / "Closed" / "DDN", name="ddn", runs=tmp_path).sessions
    places = {(run.trial.system, run.trial.benchmark) for run in session.runs}
    assert ("AI400X2T_24x14TiB_nvme_8xNDR200_16clients", "mlperf-storage-cosmoflow-h100") in places
    assert len(session.runs) == 30

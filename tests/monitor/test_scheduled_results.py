"""What sessions of a scheduled suite become: a verdict against the baseline, a step, an alert."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_alert_rules import firing

from assay import api, cli
from assay.errors import InputError
from assay.questions.gate import BASELINE_FILE

PROGRAM = """\
import os
print("rate", float(os.environ["LEVEL"]) + int(os.environ["DAY"]) % 3 / 10)
"""
STEP = re.compile(r"assay_step_ratio\{(.*)\} (\S+)")


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight sessions of one real run each, the last four slower; only the last has a baseline, the first."""
    directory = tmp_path_factory.mktemp("scheduled")
    for day in range(8):
        written(directory, day)
        baseline = f"nightly/{first(directory)}" if day == 7 else None
        api.run(directory / "suite.yaml", baseline=baseline, runs=directory / "runs")
    return directory


def written(directory: Path, day: int) -> None:
    """The suite of one day."""
    (directory / "bench.py").write_text(PROGRAM)
    metric = {"pattern": "rate (?P<value>[0-9.]+)", "unit": "x/s", "better": "higher"}
    suite = {
        "suite": "nightly",
        "workload": "command",
        "params": {"argv": ["{python}", str(directory / "bench.py")], "metrics": {"rate": metric}},
        "systems": ["dgx"],
        "repeats": 1,
    }
    (directory / "suite.yaml").write_text(json.dumps(suite))
    env = {"DAY": str(day), "LEVEL": "100" if day < 4 else "90"}
    (directory / "systems.yaml").write_text(json.dumps({"dgx": {"launcher": "local", "env": env}}))


def first(directory: Path) -> str:
    return sessions(directory)[0].name


def sessions(directory: Path) -> list[Path]:
    return sorted((directory / "runs" / "nightly").glob("2*"))


def test_the_metrics_have_the_newest_step_and_the_verdict_against_the_baseline(nightly: Path) -> None:
    text = api.monitor_metrics(runs=nightly / "runs").decode()
    ((labels, ratio),) = STEP.findall(text)
    assert 'way="worse"' in labels
    assert 'system="dgx"' in labels
    assert float(ratio) == pytest.approx(0.9, abs=0.01)
    (verdict,) = (line for line in text.splitlines() if line.startswith("assay_verdict_ratio{"))
    assert f'baseline="nightly/{first(nightly)}"' in verdict
    assert 'system="dgx"' in verdict
    assert float(verdict.rpartition(" ")[2]) == pytest.approx(0.9, abs=0.01)
    assert "assay_exporter_read_errors_total 0.0" in text


def test_the_step_fires_its_alert(nightly: Path, tmp_path: Path) -> None:
    text = api.monitor_metrics(runs=nightly / "runs").decode()
    (line,) = (line for line in text.splitlines() if line.startswith("assay_step_timestamp_seconds{"))
    series = line.rpartition(" ")[0]
    assert "AssayStepped" in firing(tmp_path, {series: "0x10"}, 10, "AssayStepped")


def test_a_baseline_that_is_gone_is_counted_and_the_rest_is_served(nightly: Path) -> None:
    file = sessions(nightly)[-1] / BASELINE_FILE
    before = file.read_text()
    try:
        file.write_text("nightly/never\n")
        text = api.monitor_metrics(runs=nightly / "runs").decode()
    finally:
        file.write_text(before)
    assert "assay_exporter_read_errors_total 1.0" in text
    assert "assay_result{" in text


def test_an_unknown_baseline_is_an_error_before_anything_runs(nightly: Path, tmp_path: Path) -> None:
    before = sessions(nightly)
    with pytest.raises(InputError, match="no runs with this name"):
        api.run(nightly / "suite.yaml", baseline="nightly/never", runs=nightly / "runs")
    with pytest.raises(InputError, match="there are no runs here"):
        api.run(nightly / "suite.yaml", baseline="nightly", runs=tmp_path / "none")
    assert sessions(nightly) == before


def test_the_command_ends_with_the_answer_for_the_baseline(tmp_path: Path) -> None:
    written(tmp_path, 0)
    options = ["--quiet", "--runs", str(tmp_path / "runs")]
    suite = str(tmp_path / "suite.yaml")
    assert CliRunner().invoke(cli.assay, ["run", suite, *options]).exit_code == 0
    baseline = f"nightly/{first(tmp_path)}"
    said = CliRunner().invoke(cli.assay, ["run", suite, *options, "--baseline", baseline, "--json"])
    assert said.exit_code == 3  # one run on each side
    assert json.loads(said.stdout)["gate"]["answer"] == "undecided"

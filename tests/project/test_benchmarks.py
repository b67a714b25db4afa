"""Every benchmark in its smallest form, as `make bench` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))  # its files know each other by their bare names, as scripts

import all as every
from options import ABSENT


def run(script: Path, *argv: str, logs: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a benchmark outside pytest's import path; MLPerf's logs are in `logs`."""
    of_logs = {"ASSAY_MLPERF_LOGS": str(logs)} if logs else {}
    return subprocess.run(
        [sys.executable, str(script), *argv],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | of_logs,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("script", every.benchmarks(), ids=lambda script: script.stem)
def test_the_smallest_form_of_a_benchmark_runs_and_prints_its_figures(script: Path) -> None:
    done = run(script, "--smallest")
    if done.returncode == ABSENT:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed and skipped" not in done.stdout
    assert any(character.isdigit() for character in done.stdout)


def test_a_benchmark_whose_subject_is_absent_names_it_and_has_an_exit_code_for_it(tmp_path: Path) -> None:
    done = run(ROOT / "benchmarks" / "score.py", "--smallest", logs=tmp_path)
    assert done.returncode == ABSENT
    assert done.stdout.startswith("absent: v3.1/")
    assert str(tmp_path) in done.stdout

"""What a person does with the package, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sysbench_programs.primes import is_prime, sieved
from test_format import LOG

from assay.cli import assay


def run(*words: str) -> str:
    done = CliRunner().invoke(assay, [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_log_is_recognized_and_imported() -> None:
    Path("one.log").write_text(LOG)
    assert "1 run" in run("import", "one.log", "--name", "laptop")
    assert "event_rate: 3915 to 3915 1/s" in run("spread", "laptop")


def test_a_suite_runs_the_workload() -> None:
    suite = {"suite": "counted", "workload": "primes", "params": {"limit": 1000}, "systems": ["local"]}
    Path("suite.yaml").write_text(json.dumps(suite))
    run("run", "suite.yaml")
    assert "local  rate: " in run("spread", "counted")


def test_the_program_counts_right() -> None:
    assert [number for number in range(2, 30) if is_prime(number)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert sieved(100_000) == 9592

"""The JSON API answers whatever its own description allows or forbids: never with an error of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nightly_runs
from assay.run.index import update_index
from open_site import serving

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@pytest.mark.long
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    nightly_runs.write(tmp_path / "runs", nights=2)
    update_index(tmp_path / "runs")
    with serving(tmp_path / "runs") as site:
        found = subprocess.run(
            [
                SCHEMATHESIS, "run", f"{site.url}api/v1/openapi.json", "--generation-deterministic",
                "--no-color", "--phases", "examples,coverage,fuzzing", "--max-examples", "20",
                "--request-timeout", "120", "--suppress-health-check", "all",
                "--exclude-checks", "positive_data_acceptance",  # a name of runs may be of none
            ],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert found.returncode == 0, found.stdout[-8000:]


def test_a_name_as_long_as_no_file_may_be_is_a_name_that_matches_nothing(tmp_path: Path) -> None:
    nightly_runs.write(tmp_path / "runs", nights=1)
    update_index(tmp_path / "runs")
    with serving(tmp_path / "runs") as site:
        assert site.ask(f"/api/v1/show?run={'0' * 300}").status == 422

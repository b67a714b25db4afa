"""A test run ends with why tests were skipped: a line for each reason, not one for each test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, SUPPORT


@pytest.mark.long
def test_skips_are_counted_by_reason_the_most_frequent_first(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "from conftest import require\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_cluster(n): require('kubernetes', False, 'no cluster: set A')\n"
        "def test_other(): pytest.skip('no disk')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{SUPPORT}", "ASSAY_REQUIRE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    section = ran.stdout[ran.stdout.index("4 skipped, by reason") :].splitlines()
    assert [line.split(maxsplit=1) for line in section[1:3]] == [
        ["3", "kubernetes: no cluster: set A"],
        ["1", "no disk"],
    ]

"""The simulation that stands behind the verdicts: that it runs, meets its targets and can miss them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.slow
def test_the_simulation_meets_its_targets() -> None:
    argv = [sys.executable, str(BENCHMARKS / "statistics"), "--quick"]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "comparisons equal to assay's own" in ran.stdout
    assert "t test after every run to 20" in ran.stdout


@pytest.mark.slow
def test_a_target_that_is_missed_is_said_and_ends_with_1() -> None:
    """The table of looks without its correction: every look at 5 %."""
    program = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(BENCHMARKS / 'statistics')!r})\n"
        "sys.argv = ['statistics', '--quick']\n"
        "from assay.analyse import sequential\n"
        "sequential.nominal_p = lambda *_, **__: 0.05\n"
        f"runpy.run_path({str(BENCHMARKS / 'statistics')!r}, run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", program]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1
    assert "not met: until decided, normal, paired: false faster/slower" in ran.stderr


@pytest.mark.slow
def test_the_table_of_looks_is_found_again_by_simulation() -> None:
    argv = [sys.executable, str(BENCHMARKS / "sequential_table.py"), "--quick"]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr

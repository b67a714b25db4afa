"""What a trial costs beside its program: nothing is imported, started or synced that it has no need of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUITE = """\
suite: trivial
workload: command
params:
  argv: [echo, "value: 1"]
  metrics: {value: {pattern: 'value: (?P<value>[0-9]+)', unit: ""}}
repeats: 3
systems: [local]
"""
IMPORTED = """\
import sys
sys.argv = ["assay", "run", "suite.yaml", "--quiet"]
from assay.cli import main
try:
    main()
finally:
    print("imported:", *sys.modules)
"""


def test_a_suite_of_one_command_imports_no_other_workload_and_for_values_that_are_all_alike_no_array_library(
    tmp_path: Path,
) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "n = 3" in ran.stdout
    imported = set(ran.stdout.rpartition("imported: ")[2].split())
    assert "assay.analyse.doubts" in imported
    assert not imported & {"numpy", "scipy"}
    unasked = ("mlperf.rounds", "scaling.study", "rankings", "exchange.curves")  # what it has no runs for
    assert not [name for name in imported if name.startswith(tuple(f"assay.analyse.{of}" for of in unasked))]
    assert {name for name in imported if name.startswith("assay.workloads.")} == {
        "assay.workloads.command",
        "assay.workloads.command_metrics",
        "assay.workloads.workload",
        "assay.workloads.data",
        "assay.workloads.payload_log",
    }

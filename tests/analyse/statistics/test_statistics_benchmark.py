"""The simulation that stands behind the verdicts: that it runs, meets its targets and can miss them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.analyse.comparison.verdict import lost_by_sides
from assay.analyse.points.encounters import BUSY_ERROR_S
from assay.records import NodeCounts, Result
from conftest import ROOT
from stated_runs import result

BENCHMARKS = ROOT / "benchmarks"


@pytest.mark.slow
@pytest.mark.long
def test_the_simulation_meets_its_targets() -> None:
    argv = [sys.executable, str(BENCHMARKS / "statistics"), "--quick"]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "comparisons equal to Assay's own" in ran.stdout
    assert "t test after every run to 20" in ran.stdout


@pytest.mark.long
def test_a_target_that_is_missed_is_said_and_ends_with_1() -> None:
    """The table of looks without its correction: every look at 5 %."""
    program = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(BENCHMARKS / 'statistics')!r})\n"
        "sys.argv = ['statistics', '--quick']\n"
        "from assay.analyse.statistics import sequential\n"
        "sequential.nominal_p = lambda *_, **__: 0.05\n"
        f"runpy.run_path({str(BENCHMARKS / 'statistics')!r}, run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", program]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "not met: until decided, normal, paired: false faster/slower" in ran.stderr


@pytest.mark.long
def test_the_table_of_looks_is_found_again_by_simulation() -> None:
    argv = [sys.executable, str(BENCHMARKS / "sequential_table.py"), "--quick"]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_document_holds_the_table_of_a_full_run_in_which_every_target_is_met() -> None:
    document = (BENCHMARKS.parent / "docs" / "explanation" / "statistics.md").read_text()
    rows = [
        line.strip("| ").split(" | ") for line in document.splitlines() if line.endswith((" yes |", " – |"))
    ]
    listing = (
        "import sys, json\n"
        f"sys.path.insert(0, {str(BENCHMARKS / 'statistics')!r})\n"
        "import arrangement, busy_machine, coarse_timer, many_claims, many_looks, one_look\n"
        "import replication, today\n"
        "groups = (one_look.fixed, one_look.dependent, many_looks.sequential, many_claims.families,\n"
        "          replication.sessions, replication.needed, today.common_practice, busy_machine.busy,\n"
        "          arrangement.arrangement, coarse_timer.coarse)\n"
        "words = lambda e: e.target.words if e.target else '–'\n"
        "print(json.dumps([[e.group, e.name, words(e)] for g in groups for e in g()]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True)
    assert [[row[0], row[1], row[-2]] for row in rows] == json.loads(ran.stdout)
    assert {row[-1] for row in rows} == {"yes", "–"}
    assert " NO |" not in document


def test_the_loss_that_the_simulation_allows_for_is_that_of_assay() -> None:
    sys.path.insert(0, str(BENCHMARKS / "statistics"))
    try:
        busy_machine = importlib.import_module("busy_machine")
    finally:
        sys.path.remove(str(BENCHMARKS / "statistics"))
    rng = np.random.default_rng(1)
    for threads, load in (
        ((1, 1), 0.0),
        ((1, 1), 1.0),
        ((2, 1), 0.05),
        ((2, 2), 0.15),
        ((2, 2), 1.0),
        ((2, 1), 4.0),
    ):
        a, b = (
            busy_machine.beside(
                rng, busy_machine.Program(count), np.full((20, 5), load), rng.random((20, 1)), uneven=0.05
            )
            for count in threads
        )
        for number, lost in enumerate(zip(*busy_machine.lost_by_sides(a, b), strict=True)):
            sides = [[_run_with(runs, (number, block)) for block in range(5)] for runs in (a, b)]
            blocks = list(zip(*sides, strict=True))
            assert lost_by_sides(*sides, busy_machine.MARGIN, blocks) == pytest.approx(lost)


def _run_with(runs: Any, which: tuple[int, int]) -> Result:
    """10 s, so that what is taken off for the kernel's coarse counting has to be added here."""
    used, others, waited, runnable = (
        10 * float(counted[which]) for counted in (runs.used, runs.others, runs.waited, runs.runnable)
    )
    busy = used + others + 2 * BUSY_ERROR_S
    node = NodeCounts(
        *(10.0, 2, "cpus"),
        busy_cpu_s=busy,
        job_cpu_s=used,
        cpu_wait_s=waited,
        queue_wait_s=runnable - used - others,
    )
    made = result()
    return replace(made, run=replace(made.run, nodes=(node,)))

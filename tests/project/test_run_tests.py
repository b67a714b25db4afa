"""The tool behind `make test`, on a small project of one test for each part."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path

import pytest

from conftest import ROOT

TOOL = ROOT / "tools" / "run_tests.py"
ALL_SERVICES = {"ASSAY_TEST_KUBECONFIG": "one", "ASSAY_TEST_SLURM": "one", "ASSAY_REQUIRE": "ssh"}

PARTS = """
import pytest
from pathlib import Path

@pytest.mark.kubernetes
def test_cluster(): pass

@pytest.mark.slurm
def test_slurm(): pass

@pytest.mark.ssh
def test_hosts(): pytest.skip("no sshd")

@pytest.mark.torch
def test_training(): pass

@pytest.mark.kubernetes
@pytest.mark.disruptive
def test_cluster_broken(): pass

@pytest.mark.disruptive
def test_hosts_slowed(): pass

@pytest.mark.long
def test_long():
    Path("marked").touch()
    pytest.fail("each time")
"""
FLAKY = """
@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    tried = Path(f"tried-{{number}}")
    if not tried.exists():
        tried.touch()
        pytest.fail("the first time")
"""


@pytest.mark.long
def test_what_passes_alone_is_named_and_does_not_fail_the_run(tmp_path: Path) -> None:
    code, said = run(tmp_path, FLAKY.format(flaky=2), **ALL_SERVICES)
    assert (code, said[-1]) == (0, "7 passed, 0 failed, 1 skipped")
    named = [line for line in said if line.startswith("failed with other tests running, passed alone: ")]
    assert [line.rsplit(": ", 1)[1] for line in named] == [
        "tests/test_parts.py::test_flaky[0]",
        "tests/test_parts.py::test_flaky[1]",
    ]
    parts = re.findall(r"^([a-z-]+) +\d+\.\d min +\d+\.\d min of CPU time$", "\n".join(said), re.MULTILINE)
    assert parts == ["cluster", "slurm", "hosts", "others", "trainings", "cluster-broken", "hosts-slowed"]


@pytest.mark.long
def test_three_that_pass_only_alone_fail_the_run(tmp_path: Path) -> None:
    code, said = run(tmp_path, FLAKY.format(flaky=3))
    assert (code, said[-1]) == (1, "8 passed, 0 failed, 1 skipped")
    assert "3 tests passed only alone; at most 2 may" in said
    timed = [line.split()[0] for line in said if line.endswith("min of CPU time")]
    assert timed == ["others", "trainings"]  # no service is here, and each test ran all the same


def test_each_test_is_in_one_part_whatever_it_needs_and_whatever_is_absent() -> None:
    tool = runpy.run_path(str(TOOL))
    services = tool["SERVICES"]
    for absent in subsets(*services):
        parts = [compile(part.tests, part.name, "eval") for part in tool["parts_of"]("{}", set(absent))]
        for marked in subsets(*services, "torch", "disruptive"):
            if "disruptive" in marked and not {*marked} & {*services}:
                continue  # there is no such test: what is disrupted is a service
            markers = dict.fromkeys((*services, "torch", "disruptive", "long"), False)
            markers |= dict.fromkeys(marked, True)
            chosen = [part.co_filename for part in parts if eval(part, {}, markers)]
            assert len(chosen) == 1, (absent, marked, chosen)


def subsets(*names: str) -> chain[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


@pytest.mark.long
def test_what_fails_alone_as_well_fails_the_run_and_only_all_runs_the_long_ones(tmp_path: Path) -> None:
    code, said = run(tmp_path, "\ndef test_other(): pass\n", "--all")
    assert (code, said[-1]) == (1, "6 passed, 1 failed, 1 skipped")
    assert (tmp_path / "marked").exists()


def run(directory: Path, more: str, *options: str, **services: str) -> tuple[int, list[str]]:
    """The exit code of the tool in a project of these tests, and the lines that it printed."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    markers = "\n".join(
        f"    {name}:" for name in ["kubernetes", "slurm", "ssh", "podman", "torch", "disruptive", "long"]
    )
    (directory / "pytest.ini").write_text(f"[pytest]\naddopts = -q -p xdist\nmarkers =\n{markers}\n")
    (directory / "tests").mkdir()
    (directory / "tests" / "test_parts.py").write_text(PARTS + more)
    done = subprocess.run(
        [sys.executable, str(TOOL), *options],
        cwd=directory,
        # hypothesis and others cost a second a start
        env=outside | services | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()

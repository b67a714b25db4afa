"""examples/plugin is a package that works: installed, it adds a format, a workload and a command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that pip installed it in."""
    pytest.importorskip("setuptools")
    source, place = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-build-isolation", "--target", str(place)]
    subprocess.run([*pip, *alone, str(source)], check=True)
    return place


def assay(place: Path, here: Path, *words: str) -> str:
    """What a command prints."""
    env = {**os.environ, "PYTHONPATH": str(place)}
    argv = [sys.executable, "-c", "from assay.cli import main; main()", *words]
    done = subprocess.run(argv, cwd=here, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_all_that_it_adds_is_used_through_the_command_line(installed: Path, tmp_path: Path) -> None:
    log = re.search(r'^LOG = """(.*?)^"""', (EXAMPLE / "tests" / "test_format.py").read_text(), re.M | re.S)
    assert log is not None
    for number in (1, 2, 3):
        text = log[1].replace("3914.56", f"391{number}.56")
        (tmp_path / f"{number}.log").write_text(text)
    assert "3 runs" in assay(installed, tmp_path, "import", "1.log", "2.log", "3.log", "--name", "laptop")
    assert "event_rate: 3912 to 3914 1/s" in assay(installed, tmp_path, "spread", "laptop")
    shown = json.loads(assay(installed, tmp_path, "show", "laptop", "--json"))["points"]
    assert {point["metric"] for point in shown} == {"event_rate", "latency_mean", "latency_p95"}
    suite = (EXAMPLE / "suite.yaml").read_text().replace("[10000, 100000]", "[1000, 2000]")
    (tmp_path / "suite.yaml").write_text(suite)
    assert "primes" in assay(installed, tmp_path, "plan", "suite.yaml")
    assay(installed, tmp_path, "run", "suite.yaml")
    assert assay(installed, tmp_path, "spread", "primes").count("local  rate: ") == 2
    assert re.search("  spread +Logs of sysbench", assay(installed, tmp_path, "--help"))
    [check] = [line for line in assay(installed, tmp_path, "doctor").splitlines() if "assay-sysbench" in line]
    added = sorted(check.partition(": adds ")[2].split(", "))
    assert added == ["primes (workloads)", "spread (commands)", "sysbench (formats)"]


@pytest.mark.slow
def test_its_own_tests_pass_where_nothing_of_ours_is(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    strict = ["--strict-markers", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *strict, "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout

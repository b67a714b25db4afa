"""`assay stack bisect` of what users bring: stored stacks, two Pythons, wrong results, another launcher."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.wheels import make_wheel

from assay.errors import InputError
from assay.questions.run import run
from assay.stacks import uv
from assay.stacks.bisect import BisectStacks
from assay.stacks.bisect_result import BisectionResult
from conftest import require
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

SUITE = """\
suite: pace
workload: command
shapes: [1x1]
params:
  argv: ["{python}", measure.py]
  files: [measure.py]
  metrics: {rate: {pattern: 'rate (?P<value>[0-9.]+)', unit: 1/s, better: higher}}
sample_every: never
"""
MEASURE = """\
import platform, sys, time
import alpha, beta
if beta.WRONG:
    sys.exit("wrong result: 2 + 2 is 5")
share = beta.SHARE * (0.8 if platform.python_version() == beta.SLOW_PYTHON else 1)
print("rate", 100 * share * (1 + (time.time_ns() // 1000 % 97) / 1e4))
"""


def _beta(folder: Path, version: str, share: float = 1, wrong: bool = False, slow: str = "") -> None:
    make_wheel(
        folder / "wheels", "beta", version, f"SHARE = {share}\nWRONG = {wrong}\nSLOW_PYTHON = {slow!r}\n"
    )


def _lock(folder: Path, name: str, alpha: str, beta: str) -> str:
    path = folder / name
    path.write_text(f"alpha=={alpha}\nbeta=={beta}\n")
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "measure.py").write_text(MEASURE)
    (tmp_path / "suite.yaml").write_text(SUITE)
    for version in ("1.0", "2.0"):
        make_wheel(tmp_path / "wheels", "alpha", version, "")
        _beta(tmp_path, version)
    return tmp_path


def _request(folder: Path, **changes: object) -> BisectStacks:
    ends = {"good": _lock(folder, "good.txt", "1.0", "1.0"), "bad": _lock(folder, "bad.txt", "2.0", "2.0")}
    known = {"measure": folder / "suite.yaml", "wheels": (folder / "wheels",), "offline": True}
    return BisectStacks(**{**ends, **known, **changes})  # type: ignore[arg-type]


def _bisect(folder: Path, request: BisectStacks) -> BisectionResult:
    found = replace(request, runs=folder / "runs").answer()
    assert isinstance(found, BisectionResult)
    return found


def _culprits(found: BisectionResult) -> list[str]:
    line = found.lines[0]
    return [line.names[change] for one in line.search.culprits for change in one.changes]


@pytest.mark.long
def test_stacks_that_runs_have_observed_are_bisected_by_the_names_of_these_runs(folder: Path) -> None:
    _beta(folder, "2.0", share=0.8)
    for name, version in (("old", "1.0"), ("new", "2.0")):
        uv.create(folder / name, sys.executable, 60.0)
        argv = [uv.program(), "pip", "install", "--python", str(folder / name / "bin/python"), "--no-index"]
        argv += ["--find-links", str(folder / "wheels"), f"alpha=={version}", f"beta=={version}"]
        subprocess.run(argv, check=True, capture_output=True)
    systems = "".join(
        f"{name}: {{launcher: local, python: {folder / name / 'bin/python'}, env: {{OMP_PLACES: {place}}}}}\n"
        for name, place in (("old", "cores"), ("new", "threads"))
    )
    (folder / "systems.yaml").write_text(systems)
    compared = folder / "compared.yaml"
    compared.write_text(SUITE.replace("suite: pace", "suite: compared\nsystems: [old, new]\nrepeats: 3"))
    run(compared, runs=folder / "runs")
    found = _bisect(folder, _request(folder, good="compared:old", bad="compared:new"))
    assert sorted(found.plan.names) == [
        "OMP_PLACES cores → threads",
        "alpha 1.0 → 2.0",
        "beta 1.0 → 2.0",
    ]
    assert _culprits(found) == ["beta 1.0 → 2.0"]
    (culprit,) = found.lines[0].search.culprits
    assert culprit.confirmed is not None
    assert culprit.confirmed.builds == 3


@pytest.mark.long
def test_a_python_that_makes_it_slower_is_named(folder: Path) -> None:
    here = uv.find_python(sys.executable)
    listed = subprocess.run(
        [uv.program(), "python", "list", "--only-installed"], capture_output=True, text=True, check=True
    )
    every = [uv.find_python(line.split()[1]) for line in listed.stdout.splitlines()]
    others = [one for one in every if one.version != here.version]
    require("pythons", bool(others), "only one Python is installed")
    other = others[0]
    for version in ("1.0", "2.0"):
        _beta(folder, version, slow=other.version)
    found = _bisect(folder, _request(folder, good_python=here.path, bad_python=other.path))
    assert _culprits(found) == [f"Python {here.version} → {other.version}"]


@pytest.mark.long
def test_a_wrong_result_is_bisected_down_to_the_version(folder: Path) -> None:
    _beta(folder, "1.5")
    _beta(folder, "1.6", wrong=True)
    _beta(folder, "2.0", wrong=True)
    found = _bisect(folder, _request(folder))
    changes, versions = found.lines
    assert changes.search.kind == "fails"
    values = {value for block in changes.search.blocks for value in block.values() if isinstance(value, str)}
    assert values == {"wrong result"}
    assert _culprits(found) == ["beta 1.0 → 2.0"]
    assert [versions.names[one] for one in versions.search.culprits[0].changes] == ["1.5 → 1.6"]


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
def test_stacks_are_bisected_on_a_node_of_slurm(folder: Path) -> None:
    _beta(folder, "2.0", wrong=True)
    (folder / "systems.yaml").write_text("nodes: {launcher: slurm}\n")
    found = _bisect(folder, _request(folder, system="nodes"))
    assert _culprits(found) == ["beta 1.0 → 2.0"]
    assert found.lines[0].search.kind == "fails"


def test_a_system_that_is_not_there_is_refused_before_anything_is_built(folder: Path) -> None:
    (folder / "systems.yaml").write_text("nodes: {launcher: slurm}\n")
    with pytest.raises(InputError, match=r"systems.yaml.*node.*did you mean nodes"):
        _bisect(folder, _request(folder, system="node"))
    (folder / "systems.yaml").write_text("nodes: {launcher: slurm, shelf: 3}\n")
    with pytest.raises(InputError, match=r"systems.yaml:1: nodes.shelf"):
        _bisect(folder, _request(folder, system="nodes"))
    assert not (folder / "runs/.stacks").exists()

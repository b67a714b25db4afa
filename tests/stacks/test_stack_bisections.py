"""`assay stack bisect`: real environments by uv from wheels made here, real sessions, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.support.package_index import Release, serving
from tests.support.wheels import make_wheel

from assay.errors import EXIT_OK, EXIT_UNDECIDED, InputError
from assay.records import RunState
from assay.rundir.session import sessions_of
from assay.stacks.bisect import BisectStacks
from assay.stacks.bisect_result import BisectionResult
from assay.stacks.environments import Workshop
from killed_program import killed_at

SUITE = """\
suite: pace
workload: command
params:
  argv: ["{python}", measure.py]
  files: [measure.py]
  metrics: {rate: {pattern: 'rate (?P<value>[0-9.]+)', unit: 1/s, better: higher}}
sample_every: never
"""
MEASURE = """\
import importlib, time
speed = 100.0
for name in ("alpha", "beta", "gamma", "delta"):
    speed *= importlib.import_module(name).SHARE
print("rate", speed * (1 + (time.time_ns() // 1000 % 97) / 1e4))
"""
NAMES = ("alpha", "beta", "gamma", "delta")


def _wheel(
    folder: Path, name: str, version: str, code: str = "SHARE = 1", requires: tuple[str, ...] = ()
) -> None:
    make_wheel(folder / "wheels", name, version, code, requires)


def _lock(path: Path, **versions: str) -> str:
    path.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "measure.py").write_text(MEASURE)
    (tmp_path / "suite.yaml").write_text(SUITE)
    for name in NAMES:
        for version in ("1.0", "2.0"):
            _wheel(tmp_path, name, version)
    return tmp_path


def _request(folder: Path, **changes: object) -> BisectStacks:
    good = _lock(folder / "good.txt", **dict.fromkeys(NAMES, "1.0"))
    bad = _lock(folder / "bad.txt", **dict.fromkeys(NAMES, "2.0"))
    request = BisectStacks(
        good, bad, measure=folder / "suite.yaml", wheels=(folder / "wheels",), offline=True
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def _bisect(folder: Path, request: BisectStacks | None = None) -> BisectionResult:
    found = replace(request or _request(folder), runs=folder / "runs").answer()
    assert isinstance(found, BisectionResult)
    return found


def _culprits(found: BisectionResult, at: int = 0) -> list[str]:
    line = found.lines[at]
    return [line.names[change] for one in line.search.culprits for change in one.changes]


@pytest.mark.long
def test_the_package_and_then_the_version_that_made_it_slower_are_named(folder: Path) -> None:
    _wheel(folder, "gamma", "2.0", "SHARE = 0.8")
    _wheel(folder, "gamma", "1.1")
    _wheel(folder, "gamma", "1.2", "SHARE = 0.8")
    found = _bisect(folder)
    assert _culprits(found) == ["gamma 1.0 → 2.0"]
    changes = found.lines[0].search
    assert changes.ended == "found"
    assert changes.culprits[0].probability >= 0.95
    assert changes.culprits[0].explains
    assert found.lines[1].what == "versions of gamma"
    assert _culprits(found, 1) == ["1.1 → 1.2"]
    again = _bisect(folder)
    assert again.sessions == found.sessions, "what is done is read, not run again"


@pytest.mark.long
def test_a_crash_is_bisected_where_a_mixture_cannot_be_resolved(folder: Path) -> None:
    _wheel(folder, "beta", "2.0", "import os; SHARE = 1", ("alpha>=2",))
    _wheel(folder, "gamma", "2.0", "SHARE = 1", ("delta>=2",))
    _wheel(folder, "delta", "2.0", "import os; os.abort()", ("gamma>=2",))
    found = _bisect(folder)
    line = found.lines[0]
    assert line.search.kind == "fails"
    assert sorted(line.names)[0] == "alpha 1.0 → 2.0"
    assert len(line.names) == 3, "gamma and delta require each other"
    assert _culprits(found) == ["delta 1.0 → 2.0 (with gamma)"]
    assert line.search.culprits[0].fails


def test_equal_stacks_and_stacks_that_cannot_be_resolved_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="nothing to bisect"):
        _bisect(folder, _request(folder, bad=_request(folder).good))
    missing = _lock(folder / "missing.txt", alpha="9.0")
    with pytest.raises(InputError, match=r"(?s)alpha==9\.0.*bad: the stack can't be installed"):
        _bisect(folder, _request(folder, bad=missing))


@pytest.mark.long
def test_a_bisection_that_is_killed_resumes_without_repeating_a_trial(folder: Path) -> None:
    _wheel(folder, "beta", "2.0", "SHARE = 0.7")
    request, runs = _request(folder), folder / "runs"
    argv = [sys.executable, "-m", "assay", "stack", "bisect", request.good, str(request.bad), "--json"]
    argv += ["--measure", str(request.measure), "--wheels", str(request.wheels[0]), "--offline"]
    argv += ["--runs", str(runs), "--name", "killed"]
    killed = 0
    signs = (".stacks/bisections/killed/journal.jsonl", "killed/*/*-r01/attempt-1/run.json")
    for sign in (*signs, "killed/*/*-m03-r01/attempt-1/run.json"):
        killed += killed_at(argv, runs, sign)
    assert killed == 3
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (EXIT_OK, EXIT_UNDECIDED), done.stderr  # undecided where others use the CPUs
    found = json.loads(done.stdout)
    assert [one["changes"] for one in found["lines"][0]["culprits"]] == [["beta 1.0 → 2.0"]]
    assert "killed: changes: 4 changes, at least 4 stacks to build" in done.stderr
    for session in sessions_of(runs, "killed"):
        finished = [attempt.run() for attempt in session.attempts()]
        ids = sorted(run.trial.id for run in finished if run.state is RunState.FINISHED)
        assert ids == sorted(trial.id for trial in session.plan().trials), "each once"


def test_a_signal_while_a_stack_is_built_is_a_ctrl_c_so_that_no_uv_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_given: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Workshop, "build", build)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt):
            _bisect(folder)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.long
def test_the_day_and_then_the_package_that_made_it_slower_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = [Release(name, "1.0", module="SHARE = 1", uploaded="2026-01-01T00:00:00Z") for name in NAMES]
    for day, (name, share) in enumerate((("alpha", 1), ("beta", 1), ("gamma", 0.7), ("delta", 1)), 1):
        code = f"SHARE = {share}"
        releases.append(Release(name, "2.0", module=code, uploaded=f"2026-02-{7 * day:02d}T12:00:00Z"))
    (folder / "any.txt").write_text("".join(f"{name}\n" for name in NAMES))
    days = date(2026, 1, 15), date(2026, 3, 15)
    request = BisectStacks(str(folder / "any.txt"), measure=folder / "suite.yaml", between=days)
    with serving(releases) as index:
        for name, value in index.environment(folder / "cache").items():
            monkeypatch.setenv(name, value)
        found = _bisect(folder, request)
    assert found.lines[0].names[2] == "2026-02-15 → 2026-02-22"
    assert _culprits(found) == ["2026-02-15 → 2026-02-22"]
    assert found.lines[0].then == "only gamma 1.0 → 2.0 changed then"

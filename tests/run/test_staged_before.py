"""Frames that a suite's nodes bring near before the ranks start: told apart, reused, held, refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.frame_manifest import write_manifest
from assay.questions.evidence import run_set
from assay_payloads.datasets import staging_cache
from assay_payloads.datasets.manifest import ChosenFrame, made
from command_line import assay as typed

FRAME_BYTES = 5000
LOOK = """
import os, json
from pathlib import Path
near = Path(os.environ["ASSAY_DATA"])
lines = Path(os.environ["ASSAY_MANIFEST"]).read_text().splitlines()
label = json.loads(lines[1])[0]
print("frames", len(lines) - 1)
print("bytes", (near / label).stat().st_size)
"""


def data_set(root: Path, frames: int) -> list[ChosenFrame]:
    """A data set in A2D2's layout whose frames are bytes."""
    chosen = []
    for number in range(frames):
        names = [f"s/{kind}/c/{kind}_{number}.png" for kind in ("label", "camera")]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(bytes([number]) * FRAME_BYTES)
        chosen.append(ChosenFrame(*names, FRAME_BYTES, FRAME_BYTES))
    (root / "class_list.json").write_text("{}")
    return chosen


def suite(place: Path, **data: object) -> Path:
    """A suite of a script that looks at its frames."""
    (place / "look.py").write_text(LOOK)
    metric = {"pattern": r"bytes (?P<value>\d+)", "unit": "B"}
    content = {
        "suite": "near",
        "workload": "command",
        "params": {"argv": [sys.executable, str(place / "look.py")], "metrics": {"seen": metric}},
        "data": {"manifest": "m.jsonl", "to": str(place / "cache"), **data},
        "repeats": 2,
        "systems": ["local"],
        "sample_every": "never",
    }
    (place / "suite.json").write_text(json.dumps(content))
    return place / "suite.json"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    frames = data_set(tmp_path / "data", 6)
    write_manifest(tmp_path / "m.jsonl", made(str(tmp_path / "data"), "a2d2", "all", frames))
    return tmp_path


def test_frames_are_near_before_the_ranks_start_and_the_next_trial_finds_them(place: Path) -> None:
    ran = typed(place, "run", str(suite(place)), "--quiet")
    assert ran.returncode == 0, ran.stderr
    results = run_set(place / "runs", "near").results
    first, second = sorted(results, key=lambda one: one.run.trial.block)
    measured = [{one.metric: one.value for one in result.reading.measurements} for result in (first, second)]
    assert [of["seen"] for of in measured] == [FRAME_BYTES, FRAME_BYTES]
    assert [of["staged_bytes"] for of in measured] == [12 * FRAME_BYTES + 2, 0]
    assert float(str(first.reading.facts["staging.bytes_per_s"])) > 0
    assert "staging.bytes_per_s" not in second.reading.facts
    assert second.reading.facts["staging.present_files"] == 13
    shown = typed(place, "show", "near", "--runs", str(place / "runs"))
    assert "command staging" in shown.stdout  # a busy machine widens the intervals, which cuts the name
    assert "failed-runs-left-out" not in shown.stdout


def test_the_dry_run_shows_where_the_frames_go(place: Path) -> None:
    asked = str(suite(place, space="1 MB"))
    planned = typed(place, "plan", asked)
    assert f"reads 6 frames of m.jsonl from {place / 'cache'}" in planned.stdout
    sent = typed(place, "plan", asked, "--show", "command-1x1-r01").stdout
    before, _, rank = sent.partition("# then each rank:")
    assert "assay_payloads.datasets.staging frames.jsonl" in before
    assert "--space 1000000" in before
    assert "look.py" in rank


def test_a_staging_that_fails_ends_the_trial_with_its_reason(place: Path) -> None:
    (place / "data" / "s/camera/c/camera_3.png").unlink()
    ran = typed(place, "run", str(suite(place)), "--quiet")
    assert ran.returncode != 0
    assert "staging on node 0: frames.jsonl:" in ran.stdout + ran.stderr
    assert "has no s/camera/c/camera_3.png" in ran.stdout + ran.stderr


def test_what_a_suite_can_not_stage_is_named_with_its_line(place: Path) -> None:
    (place / "m.jsonl").write_text("hello\n")
    asked = suite(place, to="scratch", stage="through", space="none")
    planned = typed(place, "plan", str(asked))
    assert planned.returncode == 4
    for words in ("data.to", "data.space", "is not an absolute path"):
        assert words in planned.stderr
    planned = typed(place, "plan", str(suite(place, stage="through")))
    for words in ("is not a manifest", "can't keep frames as it reads them"):
        assert words in planned.stderr


@pytest.mark.long
def test_what_a_running_trial_reads_is_not_evicted(place: Path) -> None:
    """The keeper holds the set from before the staging to the end of the ranks, and no longer."""
    asked, reading, go = suite(place), place / "reading", place / "go"
    waits = f"while not Path({str(go)!r}).exists(): time.sleep(0.02)\n"
    waiting = f"import time\nPath({str(reading)!r}).touch()\n{waits}"
    (place / "look.py").write_text(LOOK + waiting)
    running = subprocess.Popen([sys.executable, "-m", "assay", "run", str(asked), "--quiet"], cwd=place)
    try:
        until = time.monotonic() + 60
        while not reading.exists() and time.monotonic() < until and running.poll() is None:
            time.sleep(0.02)
        assert reading.exists()
        (one,) = staging_cache.sets(place / "cache")
        assert one.in_use
        assert not staging_cache.remove(place / "cache", one.name)
        go.touch()
        assert running.wait(60) == 0
    finally:
        go.touch()
        running.kill()
        running.wait()
    assert staging_cache.remove(place / "cache", one.name)
    assert not (place / "cache" / one.name).exists()

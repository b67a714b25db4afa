"""The playbook of one node against two: its plan for GPUs, and the same questions asked here."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import counted_frames
import made_a2d2
from assay import api
from command_line import assay as typed
from conftest import ROOT, require
from playbooks import yaml

PLAYBOOK = ROOT / "examples" / "a2d2-scaling"


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    return shutil.copytree(PLAYBOOK, tmp_path / "a2d2-scaling")


@pytest.mark.long
def test_both_sizes_train_on_the_same_manifest(playbook: Path) -> None:
    counted_frames.catalog(playbook / "a2d2.duckdb", range(40))
    text = (playbook / "suite.yaml").read_text()
    (playbook / "suite.yaml").write_text(text.replace("limit: 27300", "limit: 10"))
    plan = api.plan(playbook / "suite.yaml")
    trials = [t for t in plan.plan.trials if t.benchmark == "training"]
    assert {str(trial.shape) for trial in trials} == {"8x1x1", "16x1x2"}
    sent = [plan.sent(plan.trial(f"training-{shape}-r01")).files for shape in ("8x1x1", "16x1x2")]
    assert sent[0] == sent[1]
    assert "manifest.jsonl" in sent[0] or plan.sent(trials[0]).whole
    there = yaml(ROOT / "examples" / "a2d2" / "systems.yaml")
    assert yaml(playbook / "systems.yaml") == {"openshift": there["openshift"]}


def test_the_redbooks_figures_are_judged_by_their_own_numbers() -> None:
    page, per_size = (PLAYBOOK / "README.md").read_text(), 5
    speedup = 1328 / 740
    efficiency = speedup / 2
    for words in (
        f"{speedup:.2f}",
        f"{100 * efficiency:.1f} %",
        f"{100 * (1 / efficiency - 1):.0f} % more GPU-hours",
    ):
        assert words in page
    # of the difference of two means of logarithms, for a spread of 1
    half = stats.t.ppf(0.975, 2 * per_size - 2) * (2 / per_size) ** 0.5
    assert f"±{100 * efficiency * half * 0.02:.1f} percentage points" in page
    assert f"less than {100 * -math.log(efficiency) / half:.1f} %" in page


@pytest.mark.torch
@pytest.mark.long
def test_one_worker_and_two_train_alike_from_a_manifest(playbook: Path) -> None:
    for name in ("torch", "segmentation_models_pytorch", "pyspng"):
        require(name, importlib.util.find_spec(name) is not None, "install the extras `training` and `data`")
    made_a2d2.make(playbook / "made", frames=24)
    api.scan_data(playbook / "made", catalog=playbook / "made.duckdb")
    text = (playbook / "here.yaml").read_text()
    assert "max_epochs: 2" in text
    text = text.replace("repeats: 3", "repeats: 1").replace("max_epochs: 2", "max_epochs: 1")
    (playbook / "here.yaml").write_text(text)
    ran = typed(playbook, "run", "here.yaml", "--quiet")
    assert ran.returncode == 0, ran.stderr
    facts: list[dict[str, Any]] = []
    for reading in sorted(playbook.glob("runs/a2d2-scaling-here/*/*/attempt-1/reading.json")):
        found = json.loads(reading.read_text())["reading"]
        facts.append(found["facts"])
        assert "loss" in {series["name"] for series in found["series"]}
        assert sum(map(sum, found["confusion"]["counts"])) > 0
    assert len(facts) == 2
    assert len({one["manifest_digest"] for one in facts}) == 1
    assert len(list(playbook.glob("checkpoints/*/checkpoint.pt"))) == 2

"""From the catalog to a training: the frames of a manifest are those that it learns from."""

from __future__ import annotations

import importlib.util
import json
from importlib import import_module
from pathlib import Path

import pytest

import made_a2d2
from assay import api
from assay.frame_manifest import ChosenFrame, Manifest, made, write_manifest
from command_line import assay as typed
from conftest import require

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def chosen(tmp_path: Path) -> Manifest:
    """Ten frames, and a suite that trains on them."""
    for name in ("torch", "segmentation_models_pytorch", "pyspng"):
        require(name, importlib.util.find_spec(name) is not None, "install the extras `training` and `data`")
    root = made_a2d2.make(tmp_path / "a2d2", frames=24)
    api.scan_data(root, catalog=tmp_path / "c.duckdb")
    frames = api.query_data(
        f"car > 5% and scene = {made_a2d2.SCENES[0]}", catalog=tmp_path / "c.duckdb", limit=10, seed=1
    )
    write_manifest(tmp_path / "m.jsonl", frames)
    form = {"encoder": "resnet18", "image_size": [64, 96], "batch_size": 2}
    more = {"max_epochs": 1, "eval_every": 1, "learning_rate": 0.05}
    # relative to the suite, like the other paths
    real = {"mode": "real", "data": str(root), "manifest": "m.jsonl", "checkpoint": "kept"}
    suite = {
        "suite": "chosen",
        "workload": "segmentation",
        "params": {**form, **more, **real},
        "repeats": 1,
        "systems": ["local"],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    return frames


@pytest.mark.long
def test_the_chosen_frames_are_trained_on_and_named(tmp_path: Path, chosen: Manifest) -> None:
    ran = typed(tmp_path, "run", "suite.json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    (log,) = tmp_path.glob("runs/chosen/*/*/attempt-1/logs/rank-0.log")
    events = [
        json.loads(line.partition(":::MLLOG ")[2]) for line in log.read_text().splitlines() if "MLLOG" in line
    ]
    said = {event["key"]: event for event in events}
    assert said["manifest_digest"]["value"] == chosen.digest
    assert said["train_samples"]["value"] + said["eval_samples"]["value"] in (9, 10)
    ended = import_module("assay_payloads.training.validator").trained(tmp_path / "kept" / "trained.pt")
    assert (ended.step, ended.size) == (4, (64, 96))
    ended.network(20)


@pytest.mark.long
def test_a_damaged_manifest_fails_the_trial_with_its_words(tmp_path: Path, chosen: Manifest) -> None:
    (tmp_path / "m.jsonl").write_text("hello\n")
    ran = typed(tmp_path, "run", "suite.json", "--quiet")
    assert ran.returncode != 0
    assert "is not a manifest" in ran.stderr + ran.stdout


@pytest.mark.long
def test_a_training_that_reads_through_keeps_exactly_the_frames_it_read(tmp_path: Path) -> None:
    for name in ("torch", "segmentation_models_pytorch"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `training`")
    root = made_a2d2.make(tmp_path / "a2d2", frames=8)
    names = [
        [made_a2d2.file(root, number, kind).relative_to(root).as_posix() for kind in ("label", "camera")]
        for number in range(6)
    ]
    frames = [ChosenFrame(*pair, *((root / name).stat().st_size for name in pair)) for pair in names]
    write_manifest(tmp_path / "m.jsonl", made(str(root), "a2d2", "six", frames))
    form = {"encoder": "resnet18", "image_size": [64, 96], "batch_size": 2, "workers": 2, "device": "cpu"}
    suite = {
        "suite": "through",
        "workload": "segmentation",
        "params": {**form, "mode": "data-only", "steps": 3, "warmup": 0, "window": 1},
        "data": {"manifest": "m.jsonl", "to": str(tmp_path / "cache"), "stage": "through", "space": "10MB"},
        "repeats": 1,
        "systems": ["local"],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    ran = typed(tmp_path, "run", "suite.json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    (near,) = (path for path in (tmp_path / "cache").iterdir() if not path.name.startswith("."))
    kept = {path.relative_to(near).as_posix(): path.read_bytes() for path in near.rglob("*.png")}
    assert len(kept) >= 2
    assert kept == {name: (root / name).read_bytes() for name in kept}
    assert kept.keys() <= {name for pair in names for name in pair}
    (log,) = tmp_path.glob("runs/through/*/*/attempt-1/logs/staging-0.log")
    assert json.loads(log.read_text())["copied_files"] == 1  # the list of classes

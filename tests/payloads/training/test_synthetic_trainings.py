"""Every training workload on one synthetic batch: its program, and the command that a user starts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import made_translations
import made_wikipedia
from assay.workloads import WORKLOADS
from conftest import long_but, require
from payload_processes import Forks, run_workload
from training_contract import run_by_command

TRANSLATION = {"width": 16, "vocabulary_size": made_translations.ROWS, "length": 8, "batch_size": 4}
SMALL: dict[str, dict[str, Any]] = {
    "bert": {
        "width": 32,
        "heads": 2,
        "feedforward": 64,
        "layers": 1,
        "vocabulary_size": made_wikipedia.ROWS,
        "length": made_wikipedia.LENGTH,
        "masked": made_wikipedia.MASKED,
        "batch_size": 4,
    },
    "gnmt": TRANSLATION,
    "maskrcnn": {
        "min_size": 64,
        "max_size": 96,
        "blocks": (1, 1, 1, 1),
        "width": 32,
        "regions": 32,
        "batch_size": 2,
    },
    "minigo": {"board_size": 3, "komi": 0.5, "blocks": 1, "filters": 16, "hidden": 16, "batch_size": 16},
    "ncf": {"factors": 8, "layers": (16, 8), "users": 50, "items": 40, "batch_size": 64},
    "resnet50": {"model": "resnet18", "image_size": 32, "batch_size": 2},
    "segmentation": {"encoder": "resnet18", "image_size": (64, 96), "batch_size": 2},
    "ssd": {"image_size": 48, "blocks": (1, 1, 1), "batch_size": 2},
    "transformer": TRANSLATION | {"heads": 2, "feedforward": 32, "layers": 1},
    "unet3d": {"filters": (4, 8, 16), "patch_size": 8, "batch_size": 2},
}


STEPS = {"device": "cpu", "steps": 3, "warmup": 1, "window": 2}


@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.long if n in ("unet3d", "segmentation") else ()) for n in SMALL],
)
def test_a_training_on_one_synthetic_batch_gives_its_figures(name: str, tmp_path: Path, forks: Forks) -> None:
    workload, params = WORKLOADS[name], SMALL[name] | STEPS
    reading = run_workload(tmp_path, name, 1, 1, params, forks.start)
    assert reading.problems == ()
    expected = workload.reader.metrics(workload.params(**params))
    assert {m.metric for m in reading.measurements} == {metric.name for metric in expected}
    assert all(m.value > 0 for m in reading.measurements)
    assert reading.facts["data"] == "synthetic"


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("name", long_but(1, ["ncf", *(name for name in SMALL if name != "ncf")]))
def test_the_command_runs_it_and_shows_the_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("torch", find_spec("torch") is not None, "the payloads import torch")
    monkeypatch.chdir(tmp_path)
    params = SMALL[name] | STEPS
    run = run_by_command(name, params)
    assert (run["state"], run["cause"]) == ("finished", "")
    workload = WORKLOADS[name]
    expected = workload.reader.metrics(workload.params(**params))
    assert {m["metric"] for m in run["measurements"]} == {*(metric.name for metric in expected), "peak_rss"}

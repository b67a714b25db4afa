"""MLPerf inference on real models: LoadGen drives them, its logs come back, what is INVALID has no figure."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.inference_rules import unmet_settings
from assay.logs.loadgen import inference_run, logs_of
from assay.payloads.loadgen_search import highest
from assay.records import Reading, Shape
from assay.workloads import WORKLOADS
from conftest import ROOT, require

PAYLOADS = ROOT / "src" / "assay" / "payloads"
RUNS = Path(__file__).with_name("inference_runs.py")
INFERENCE = WORKLOADS["inference"]
SMALL: Mapping[str, Any] = {
    "model": "mobilenet",
    "size": 8,
    "device": "cpu",
    "min_duration_s": 0.1,
    "samples": 16,
}
# No bound of latency that a busy machine could miss; one where a search is to end at it.
SERVER = {"batch_size": 8, "latency_bound_s": 5.0, "target_qps": 300.0}
PERFORMANCE: Mapping[str, Mapping[str, Any]] = {
    "single": {"scenario": "SingleStream"},
    "multi": {"scenario": "MultiStream", "batch_size": 8},
    "server": {"scenario": "Server", **SERVER, "max_wait_s": 0.005},
    "offline": {"scenario": "Offline", "batch_size": 8},
    "onnx-single": {"scenario": "SingleStream", "backend": "onnxruntime"},
    "onnx-multi": {"scenario": "MultiStream", "backend": "onnxruntime", "batch_size": 8},
    "onnx-server": {"scenario": "Server", **SERVER, "backend": "onnxruntime"},
    "onnx-offline": {"scenario": "Offline", "backend": "onnxruntime", "batch_size": 8},
    "two": {"scenario": "Offline", "batch_size": 8, "instances": 2},
}
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "invalid": {"scenario": "Server", **SERVER, "latency_bound_s": 1e-6},
    "search": {
        "scenario": "Server",
        "batch_size": 8,
        "latency_bound_s": 0.1,
        "search_s": 0.1,
        "search_resolution": 0.5,
    },
}


def directory(folder: Path, params: Mapping[str, Any], seed: int = 3) -> None:
    """What the task of these parameters begins with."""
    folder.mkdir(parents=True)
    task = INFERENCE.task(INFERENCE.params(**SMALL | dict(params)), Shape(1, 1), seed)
    (folder / "argv.json").write_text(json.dumps(task.argv[1:]))


def run(*folders: Path) -> subprocess.CompletedProcess[str]:
    """Run these, one after the other, in one process with one thread."""
    return subprocess.run(
        [sys.executable, str(RUNS), str(PAYLOADS), *map(str, folders)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def read(folder: Path, params: Mapping[str, Any]) -> Reading:
    return INFERENCE.read({"rank-0.log": folder / "rank-0.log"}, INFERENCE.params(**SMALL | dict(params)))


@pytest.fixture(scope="module")
def _installed() -> None:
    for name in ("torchvision", "mlperf_loadgen", "onnxruntime"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `inference`")


@pytest.fixture(scope="module")
def ran(_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder a run, with what it left behind."""
    root = tmp_path_factory.mktemp("inference")
    asked = PERFORMANCE | OTHERS
    for name, params in asked.items():
        directory(root / name, params)
    done = run(*(root / name for name in asked))
    assert done.returncode == 0, done.stderr
    return root


# Performance ---------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", PERFORMANCE)
def test_each_scenario_is_valid_in_short_form_on_both_backends(ran: Path, name: str) -> None:
    params = PERFORMANCE[name]
    reading = read(ran / name, params)
    assert reading.problems == ()
    assert reading.skipped_lines == 0
    first = INFERENCE.metrics(INFERENCE.params(**SMALL | dict(params)))[0]
    score = reading.measurements[0]
    assert (score.metric, score.unit, score.file) == (first.name, first.unit, "rank-0.log")
    assert (reading.facts["validity"], reading.facts["scenario"]) == ("VALID", params["scenario"])
    assert reading.facts["framework"] == params.get("backend", "torch")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", PERFORMANCE)
def test_what_is_printed_says_what_loadgens_own_logs_say(ran: Path, name: str) -> None:
    own = inference_run(logs_of(ran / name), name=name)
    assert (own.problem, own.contradictions) == ("", ())
    told = {(m.metric, *m.labels.values()): m.value for m in read(ran / name, PERFORMANCE[name]).measurements}
    assert told == {(m.metric, *m.labels.values()): m.value for m in own.figures}
    assert own.stated["num_errors"].value == 0
    line = (ran / name / "rank-0.log").read_text().splitlines()
    figure = read(ran / name, PERFORMANCE[name]).measurements[0]
    assert "result_" in line[figure.line - 1] or "early_stopping_latency" in line[figure.line - 1]


@pytest.mark.torch
@pytest.mark.slow
def test_a_valid_short_run_falls_short_of_the_official_settings(ran: Path) -> None:
    facts = read(ran / "single", PERFORMANCE["single"]).facts
    (unmet,) = unmet_settings("SingleStream", facts)
    assert unmet.startswith(
        "minimum duration: effective_min_duration_ms is 100, the rules ask for at least 600000"
    )


@pytest.mark.torch
@pytest.mark.slow
def test_server_runs_what_waits_in_batches(ran: Path) -> None:
    waited = read(ran / "server", PERFORMANCE["server"]).facts["mean_batch"]
    assert isinstance(waited, float)
    assert 1.2 < waited <= 8, "300 queries/s in 5 ms are 1.5 beside the first"
    assert read(ran / "single", PERFORMANCE["single"]).facts["mean_batch"] == 1.0
    assert read(ran / "multi", PERFORMANCE["multi"]).facts["mean_batch"] == 8.0


@pytest.mark.torch
@pytest.mark.slow
def test_the_seeds_of_loadgen_follow_from_the_repeats_and_are_not_its_default(ran: Path) -> None:
    seeds = [f"effective_{name}_rng_seed" for name in ("qsl", "sample_index", "schedule")]
    found = [
        [read(ran / name, PERFORMANCE[name]).facts[seed] for seed in seeds] for name in ("single", "multi")
    ]
    assert found[0] == found[1]
    assert len({0, *found[0]}) == 4


@pytest.mark.torch
@pytest.mark.slow
def test_what_loadgen_calls_invalid_has_its_reason_and_no_figure(ran: Path) -> None:
    reading = read(ran / "invalid", OTHERS["invalid"])
    assert reading.measurements == ()
    (problem,) = reading.problems
    assert problem.startswith("LoadGen says INVALID: latency above its bound")


@pytest.mark.torch
@pytest.mark.slow
def test_the_search_ends_at_a_valid_rate_with_every_try_kept(ran: Path) -> None:
    reading = read(ran / "search", OTHERS["search"])
    assert reading.problems == ()
    tries = sorted(path for path in (ran / "search").iterdir() if path.name.startswith("search-"))
    told = [reading.facts[path.name.replace("-", "_")] for path in tries]
    verdicts = [inference_run(logs_of(path), name=path.name) for path in tries]
    assert ["INVALID" not in str(said) for said in told] == [not run.problem for run in verdicts]
    sent = [run.stated["effective_target_qps"].value for run in verdicts]
    final = reading.facts["effective_target_qps"]
    tried = [float(str(said).partition(" ")[0]) for said in told]
    assert tried == pytest.approx(sent, rel=1e-5)
    assert isinstance(final, float | int)
    assert any(rate > final for rate, run in zip(tried, verdicts, strict=True) if run.problem)
    (throughput,) = [series for series in reading.series if series.name == "throughput"]
    assert len(throughput.y) == sum(not run.problem for run in verdicts), "what is INVALID has no figure"


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.floats(0.005, 1.0))
def test_the_search_finds_the_limit_to_the_share_asked_for(limit: float, first: float, within: float) -> None:
    tried: dict[float, bool] = {}

    def holds(rate: float) -> bool:
        assert rate not in tried, "no rate is tried twice"
        tried[rate] = rate <= limit
        return tried[rate]

    found = highest(holds, first, within=within, most_steps=60)
    assert found is not None
    assert tried[found]
    assert found <= limit <= found * (1 + within) * (1 + 1e-9)


def test_a_search_in_which_nothing_holds_finds_nothing() -> None:
    assert highest(lambda _rate: False, 8.0, within=0.1, most_steps=5) is None
    assert highest(lambda _rate: True, 8.0, within=0.1, most_steps=3) == 32.0

"""Runs of a whole round of MLPerf inference: whose they are, their accuracy, their figures, their doubts."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.analyse.doubts.inference import doubts_of_inference
from assay.analyse.mlperf.inference_rules import check_inference
from assay.cli.question_command import command_of
from assay.formats.loadgen import find_runs
from assay.formats.mlperf_inference import inference_runs
from assay.questions.import_ import Import
from assay.questions.score import Score
from assay.records import InferenceRun
from assay.store import find
from conftest import require

IMPORT = command_of(Import)
pytestmark = pytest.mark.slow  # a hundred megabytes of logs


@pytest.fixture(scope="module")
def results(mlperf_rounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of five submitters to v4.1."""
    archive = mlperf_rounds / "inference_v4.1_part.tar.xz"
    require("mlperf-rounds", archive.is_file(), f"no {archive.name} in {mlperf_rounds}")
    folder = tmp_path_factory.mktemp("round")
    subprocess.run(["tar", "-xJf", str(archive), "-C", str(folder)], check=True)
    return folder / "inference_results_v4.1"


@pytest.fixture(scope="module")
def runs(results: Path) -> dict[str, InferenceRun]:
    """Its runs by name."""
    found = inference_runs(find_runs([results]))
    assert len({run.name for run in found}) == len(found), "each run has a name of its own"
    return {run.name: run for run in found}


@pytest.mark.long
def test_every_run_is_named_by_submitter_system_model_and_scenario(runs: dict[str, InferenceRun]) -> None:
    assert len(runs) == 265
    assert "Dell/XE9680_H200_SXM_141GBx8_TRT/llama2-70b-99.9/Server" in runs
    assert "Google/tpu_v6_x4_flax/stable-diffusion-xl/Offline" in runs, "its folder is called offline"
    assert all(re.fullmatch(r"[^/]+/[^/]+/[^/]+/[A-Z]\w+", name) for name in runs)
    assert Counter(name.partition("/")[0] for name in runs).keys() == {
        "AMD", "Dell", "Google", "Intel", "Lenovo",
    }  # fmt: skip
    assert {run.place.round for run in runs.values() if run.place} == {"v4.1"}


@pytest.mark.long
def test_language_models_are_judged_by_their_tokens(runs: dict[str, InferenceRun]) -> None:
    judged = {
        (run.place.benchmark.removesuffix(".9").removesuffix("-99"), run.score.metric)
        for run in runs.values()
        if run.place and run.score and run.scenario in ("Offline", "Server")
    }
    assert judged == {
        *((name, "token_throughput") for name in ("llama2-70b", "mixtral-8x7b")),
        ("gptj", "inferred_token_throughput"),
        *((name, "throughput") for name in ("resnet50", "retinanet", "bert", "3d-unet", "dlrm-v2")),
        ("stable-diffusion-xl", "throughput"),
    }
    run = runs["AMD/1xMI300X_2xEPYC-9374F/llama2-70b-99.9/Offline"]
    assert run.score is not None
    assert (run.score.value, run.score.unit) == (pytest.approx(3063.02, abs=1), "tokens/s")


@pytest.mark.long
def test_every_accepted_result_reached_its_accuracy_and_only_what_is_wrong_is_doubted(
    runs: dict[str, InferenceRun],
) -> None:
    checks = {name: {c.rule: c for c in check_inference(run)} for name, run in runs.items()}
    targets = Counter(found["accuracy target"].state for found in checks.values())
    assert targets == {"ok": 263, "not applicable": 2}
    assert {found["data set"].state for found in checks.values()} == {"ok"}
    served = [name for name, run in runs.items() if run.scenario == "Server"]
    assert {checks[name]["latency bound"].state for name in served} == {"ok"}
    assert {found["minimum samples"].state for found in checks.values() if "minimum samples" in found} == {
        "ok"
    }
    doubted = {
        name: [doubt.code for doubt in found]
        for name, run in runs.items()
        if (found := doubts_of_inference(run))
    }
    # its folder accuracy holds the logs of the run of performance in Offline
    amd = "AMD/1xMI300X_2xEPYC-9374F"
    assert doubted == {f"{amd}/llama2-70b-99{share}/Server": ["no-accuracy"] for share in ("", ".9")}


def test_a_result_of_one_benchmark_shows_its_accuracy_and_its_score(results: Path) -> None:
    folder = results / "closed/Dell/results/XE8640_H100_SXM_80GBx4_TRT/llama2-70b-99.9/Server"
    done = CliRunner().invoke(command_of(Score), [str(folder), "--json"])
    [run] = json.loads(done.stdout)["inference"]
    assert run["run"] == "Dell/XE8640_H100_SXM_80GBx4_TRT/llama2-70b-99.9/Server"
    assert run["accuracy"]["figures"]["ROUGE1"] == 44.5352
    assert (run["score"]["value"], run["score"]["unit"]) == (pytest.approx(9522.2, abs=0.01), "tokens/s")
    shown = CliRunner().invoke(command_of(Score), [str(folder)]).stdout
    assert "tokens per second within the latency bound" in shown
    assert "accuracy ROUGE1 44.5352" in shown


def test_two_submitters_with_one_systems_name_are_imported_as_two_systems(
    results: Path, tmp_path: Path
) -> None:
    folders = [
        results / f"closed/{submitter}/results/1-node-2S-EMR-PyTorch/gptj-99"
        for submitter in ("Dell", "Intel")
    ]
    done = CliRunner().invoke(
        IMPORT, [*map(str, folders), "--name", "v41", "--runs", str(tmp_path), "--json"]
    )
    [session] = json.loads(done.stdout)["sessions"]
    assert session["failed"] == []
    assert not any("same bytes" in note or "short-settings" in note for note in session["notes"])
    kept = {result.run.trial.id: result for result in find(tmp_path, "v41")}
    assert kept.keys() == {
        f"gptj-99-{scenario}-1x1-{submitter}-1-node-2S-EMR-PyTorch-r01"
        for scenario in ("Offline", "Server")
        for submitter in ("Dell", "Intel")
    }


def test_the_systems_json_tells_the_size(results: Path, tmp_path: Path) -> None:
    folder = results / "closed/AMD/results/8xMI300X_2xEPYC-9374F/llama2-70b-99/Offline"
    CliRunner().invoke(IMPORT, [str(folder), "--name", "v41", "--runs", str(tmp_path)])
    [result] = find(tmp_path, "v41")
    assert (str(result.run.trial.shape), result.reading.measurements[0].metric) == ("1x8", "token_throughput")

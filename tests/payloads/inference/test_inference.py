"""MLPerf inference on real models: LoadGen drives them, its logs come back, what is INVALID has no figure."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.analyse.mlperf.inference_rules import unmet_settings
from assay.cli import assay
from assay.errors import InputError
from assay.formats.loadgen import inference_run, logs_of
from assay.records import Reading, Shape
from assay.store import find
from assay.workloads import WORKLOADS
from assay_payloads.measuring.service_level import highest
from conftest import ROOT, SUPPORT, long_but, require
from payload_processes import Forks, end

RUNS = SUPPORT / "inference_runs.py"
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
    "offline": {"scenario": "Offline", "batch_size": 8, "min_queries": 100, "seeds": "round"},
    "onnx-single": {"scenario": "SingleStream", "backend": "onnxruntime"},
    "onnx-multi": {"scenario": "MultiStream", "backend": "onnxruntime", "batch_size": 8},
    "onnx-server": {"scenario": "Server", **SERVER, "backend": "onnxruntime"},
    "onnx-offline": {"scenario": "Offline", "backend": "onnxruntime", "batch_size": 8, "min_queries": 100},
    "two": {"scenario": "Offline", "batch_size": 8, "min_queries": 1, "instances": 2},
}
FURTHER = {"onnx-single", "onnx-multi", "onnx-server", "sleeping", "two"}  # by `make test-all` only
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in FURTHER else name for name in PERFORMANCE]
)
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "invalid": {"scenario": "Server", **SERVER, "latency_bound_s": 1e-6},
    "sleeping": {  # a capacity of 500 queries/s
        "scenario": "Server",
        "latency_bound_s": 0.5,
        "search_s": 0.1,
        "search_resolution": 0.5,
    },
}


def accuracy_of(root: Path) -> dict[str, Any]:
    """A run over all of the labelled samples there."""
    data = {"mode": "accuracy", "data": str(root / "labelled.npz"), "backend": "onnxruntime"}
    return data | {"scenario": "Offline", "batch_size": 5}


def directory(folder: Path, params: Mapping[str, Any], seed: int = 3) -> None:
    """What the task of these parameters begins with."""
    folder.mkdir(parents=True)
    task = INFERENCE.task(INFERENCE.params(**SMALL | dict(params)), Shape(1, 1), seed)
    (folder / "argv.json").write_text(json.dumps([task.argv[0], *task.argv[3:]]))


def run(forks: Forks, *folders: Path, options: Sequence[str] = ()) -> None:
    """Run these, one after the other, in one process with one thread."""
    argv = ["{python}", str(RUNS), *options, *map(str, folders)]
    code, errors = end(forks.start(argv, folders[0], {}, folders[0] / "runs.log"))
    assert code == 0, errors


def read(folder: Path, params: Mapping[str, Any]) -> Reading:
    return INFERENCE.reader.read(
        {"rank-0.log": folder / "rank-0.log"}, INFERENCE.params(**SMALL | dict(params))
    )


def mlperf_conf() -> bytes:
    """The library of LoadGen, which holds the rules' settings as text."""
    found = importlib.util.find_spec("mlperf_loadgen")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_bytes()


@pytest.fixture(scope="module")
def _installed() -> None:
    for name in ("torchvision", "mlperf_loadgen", "onnxruntime"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `inference`")


@pytest.fixture(scope="module")
def ran(
    request: pytest.FixtureRequest,
    _installed: None,
    forks: Forks,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder a run, with what it left behind."""
    left_out = FURTHER if "not long" in request.config.getoption("markexpr") else set()
    root = tmp_path_factory.mktemp("inference")
    images = 3 * np.random.default_rng(5).standard_normal((16, 3, 8, 8), dtype=np.float32)
    np.savez(root / "labelled.npz", images=images, labels=np.zeros(16))
    asked = PERFORMANCE | OTHERS | {"labelled": accuracy_of(root)}
    asked = {name: params for name, params in asked.items() if name not in left_out}
    for name, params in asked.items():
        directory(root / name, params)
    run(forks, *(root / name for name in asked))
    return root


@pytest.mark.torch
@pytest.mark.slow
@EACH
def test_each_scenario_is_valid_in_short_form_on_both_backends(ran: Path, name: str) -> None:
    params = PERFORMANCE[name]
    reading = read(ran / name, params)
    assert reading.problems == ()
    assert reading.skipped_lines == 0
    first = INFERENCE.reader.metrics(INFERENCE.params(**SMALL | dict(params)))[0]
    score = reading.measurements[0]
    assert (score.metric, score.unit, score.file) == (first.name, first.unit, "rank-0.log")
    assert (reading.facts["validity"], reading.facts["scenario"]) == ("VALID", params["scenario"])
    assert reading.facts["framework"] == params.get("backend", "torch")


@pytest.mark.torch
@pytest.mark.slow
@EACH
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
        "minimum duration: effective_min_duration_ms is 100, the rules require at least 600000"
    )


@pytest.mark.torch
@pytest.mark.slow
def test_server_runs_what_waits_in_batches(ran: Path) -> None:
    waited = read(ran / "server", PERFORMANCE["server"]).facts["mean_batch"]
    assert isinstance(waited, float)
    assert 1.2 < waited <= 8, "300 queries/s in 5 ms are 1.5 beside the first"
    assert read(ran / "single", PERFORMANCE["single"]).facts["mean_batch"] == 1.0
    assert read(ran / "multi", PERFORMANCE["multi"]).facts["mean_batch"] == 8.0
    whole = read(ran / "offline", PERFORMANCE["offline"]).facts["mean_batch"]
    assert isinstance(whole, float)
    assert 7 < whole <= 8, "all but the last batch are whole"


@pytest.mark.torch
@pytest.mark.slow
def test_the_seeds_of_loadgen_follow_from_the_repeats_and_are_not_its_default(ran: Path) -> None:
    seeds = [f"effective_{name}_rng_seed" for name in ("qsl", "sample_index", "schedule")]
    found = [
        [read(ran / name, PERFORMANCE[name]).facts[seed] for seed in seeds] for name in ("single", "multi")
    ]
    assert found[0] == found[1]
    assert len({0, *found[0]}) == 4
    of_round = [read(ran / "offline", PERFORMANCE["offline"]).facts[seed] for seed in seeds]
    held = mlperf_conf()
    for seed, value in zip(seeds, of_round, strict=True):
        assert f"\n*.*.{seed.removeprefix('effective_')} = {value}\n".encode() in held, "in its mlperf.conf"


@pytest.mark.torch
@pytest.mark.slow
def test_what_loadgen_calls_invalid_has_its_reason_and_no_figure(ran: Path) -> None:
    reading = read(ran / "invalid", OTHERS["invalid"])
    assert reading.measurements == ()
    (problem,) = reading.problems
    assert problem.startswith("LoadGen says INVALID: latency above its bound")


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.slow
def test_the_search_ends_at_a_valid_rate_with_every_try_kept(ran: Path) -> None:
    """662 queries that come at 1,000 a second and are answered at 500 wait 0.66 s; at 707, 0.39.

    No lower bound is asked of the rate: a busy machine answers fewer than 500 a second.
    """
    reading = read(ran / "sleeping", OTHERS["sleeping"])
    assert reading.problems == ()
    tries = sorted(path for path in (ran / "sleeping").iterdir() if path.name.startswith("search-"))
    told = [str(reading.facts[path.name.replace("-", "_")]) for path in tries]
    verdicts = [inference_run(logs_of(path), name=path.name) for path in tries]
    assert ["INVALID (result_perf_constraints_met" in said for said in told] == [
        "latency above its bound" in run.problem for run in verdicts
    ]
    tried = [float(said.partition(" ")[0]) for said in told]
    sent = [run.stated["effective_target_qps"].value for run in verdicts]
    assert tried == pytest.approx(sent, rel=1e-5)
    assert reading.facts["searched"] is True
    final = reading.facts["effective_target_qps"]
    assert isinstance(final, float | int)
    above = [rate for rate, run in zip(tried, verdicts, strict=True) if run.problem]
    assert final < min(above) <= 1.5 * final * 1.001
    assert final < 1100
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


def answered(folder: Path) -> np.ndarray:
    """Class by sample, from LoadGen's accuracy log: it holds each answer's bytes in the order they came."""
    entries = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    found = {entry["qsl_idx"]: int.from_bytes(bytes.fromhex(entry["data"]), "little") for entry in entries}
    return np.array([found[index] for index in range(len(found))])


@pytest.mark.torch
@pytest.mark.slow
def test_accuracy_is_the_share_of_right_answers_of_the_accuracy_log(
    ran: Path, forks: Forks, tmp_path: Path
) -> None:
    """Labels are what ONNX Runtime answered but for 4 of 16, so that torch's accuracy is 0.75."""
    data, params = ran / "labelled.npz", accuracy_of(ran)
    labels = answered(ran / "labelled")
    assert len(set(labels)) > 4, "answers that differ, so that a wrong order of them is wrong"
    (zeros,) = read(ran / "labelled", params).measurements
    assert zeros.value == pytest.approx((labels == 0).mean())
    labels[[1, 5, 7, 11]] += 1
    with np.load(data) as held:
        np.savez(tmp_path / "labelled.npz", images=held["images"], labels=labels)
    again = params | {"data": str(tmp_path / "labelled.npz"), "backend": "torch"}
    directory(tmp_path / "torch", again)
    run(forks, tmp_path / "torch")
    reading = read(tmp_path / "torch", again)
    (accuracy,) = reading.measurements
    assert (accuracy.metric, accuracy.value, reading.problems) == ("accuracy", 0.75, ())
    assert reading.facts["effective_test_mode"] == "AccuracyOnly"
    script = ["{python}", "-m", "assay_payloads.inference.loadgen_accuracy", "mlperf_log_accuracy.json"]
    printed = tmp_path / "accuracy"
    scored = forks.start([*script, "--data", again["data"]], tmp_path / "torch", {}, printed)
    assert end(scored) == (0, "")
    assert float(printed.read_text()) == 0.75


@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.long
def test_the_whole_network_answers_alike_on_both_backends(forks: Forks, tmp_path: Path) -> None:
    images = 3 * np.random.default_rng(5).standard_normal((16, 3, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "labelled.npz", images=images, labels=np.zeros(16))
    for backend in ("torch", "onnxruntime"):
        directory(tmp_path / backend, accuracy_of(tmp_path) | {"backend": backend})
    run(forks, tmp_path / "torch", tmp_path / "onnxruntime", options=["--whole"])
    by_torch, by_onnx = answered(tmp_path / "torch"), answered(tmp_path / "onnxruntime")
    assert len({*by_torch}) > 4
    assert by_torch.tolist() == by_onnx.tolist()


@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.slow
def test_images_of_a_folder_a_class_are_cut_out_and_normalised_in_a_fixed_order(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("b", 255), ("a", 0)):
        (tmp_path / name).mkdir()
        image.new("RGB", (80, 40), (colour, 0, 0)).save(tmp_path / name / "1.png")
    from assay_payloads.inference.loadgen_data import labeled

    data = labeled(tmp_path, 16)
    zero, one = (np.int64(label).tobytes() for label in (0, 1))
    assert (data.score([zero, one]), data.score([one, zero])) == (1, 0), "classes in the order of their names"
    (white,) = data.read(1)
    assert white.shape == (3, 16, 16)
    assert white.dtype == np.float32
    assert white[:, 8, 8] == pytest.approx([(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225])
    (tmp_path / "a" / "1.png").write_bytes((tmp_path / "b" / "1.png").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a/1\.png: can't be decoded"):
        data.read(0)


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"no arrays", "found neither a directory nor an .npz file"),
        ({"labels": [1]}, "has no images; it has labels"),
        ({"labels": [1], "images": [[1], [2]]}, "labels are (1,), expected one for each of 2 images"),
    ],
)
def test_data_of_another_form_is_refused_with_the_files_name(
    tmp_path: Path, content: dict[str, list[Any]] | bytes | None, told: str
) -> None:
    from assay_payloads.inference.loadgen_data import labeled

    path = tmp_path / "data.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    with pytest.raises((OSError, ValueError)) as refused:
        labeled(path, 8)
    assert told in str(refused.value)
    assert "data.npz" in str(refused.value)


@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "scale"),
    [
        ("mobilenet", 1),
        *(
            pytest.param(model, scale, marks=pytest.mark.long)
            for model, scale in (
                ("ssd-mobilenet", 1),
                ("ssd-resnet34", 1),
                ("retinanet", 6.25),
                ("bert-tiny", 1),
            )
        ),
    ],
)
def test_the_flops_of_a_sample_are_what_torch_counts(model: str, scale: float) -> None:
    """RetinaNet on an image of 128 pixels instead of 800: its work grows with the area."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from assay_payloads.inference.loadgen_models import MODELS

    asked = MODELS[model]
    size = round(asked.size / scale)
    network = asked.build(size, asked.labels).eval()
    batch = [torch.from_numpy(one)[None] for one in asked.synthetic(np.random.default_rng(1), size)]
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network(*batch)
    stated = INFERENCE.reader.flops(INFERENCE.params(model=model))
    assert counter.get_total_flops() * scale**2 == pytest.approx(stated, rel=0.02)
    assert INFERENCE.reader.flops(INFERENCE.params(model=model, size=64)) is None


@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.slow
def test_bounds_are_those_of_the_mlperf_conf_that_loadgen_carries_and_sizes_those_of_the_models() -> None:
    from assay_payloads.inference.loadgen_models import MODELS

    held = mlperf_conf()
    bounds = {"mobilenet": "*", "ssd-mobilenet": "*", "bert-large": "bert", "bert-tiny": "bert"}
    gone = {"ssd-resnet34": (0.1, 64), "mobilenet": (0.01, 1024)}  # as the conf of v0.5 had them
    for name, model in MODELS.items():
        bound = f"{bounds.get(name, name)}.Server.target_latency = {model.bound_s * 1e3:g}"
        samples = f"{name.partition('-large')[0]}.*.performance_sample_count_override = {model.held}"
        if name in gone:
            assert (model.bound_s, model.held) == gone[name]
        elif name == "bert-tiny":
            assert (model.bound_s, model.held) == (MODELS["bert-large"].bound_s, MODELS["bert-large"].held)
        else:
            assert f"\n{bound}\n".encode() in held
            assert f"\n{samples}\n".encode() in held
        assert INFERENCE.reader.flops(INFERENCE.params(model=name, size=model.size)) is not None


def test_the_flops_of_bert_are_those_of_its_layers() -> None:
    """A layer of BERT: 12 products with weights of hidden², and two of tokens with tokens."""
    for model, layers, hidden, tokens in (("bert-large", 24, 1024, 384), ("bert-tiny", 2, 128, 128)):
        expected = layers * tokens * (24 * hidden**2 + 4 * tokens * hidden)
        assert INFERENCE.reader.flops(INFERENCE.params(model=model)) == pytest.approx(expected, rel=0.005)


@pytest.mark.long
@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.slow
def test_weights_are_taken_as_their_library_and_as_trainings_keep_them(tmp_path: Path) -> None:
    import torch

    from assay_payloads.inference.loadgen_backends import _load
    from assay_payloads.inference.loadgen_models import MODELS

    build, path = MODELS["bert-tiny"].build, tmp_path / "weights.pt"
    trained, empty = build(128, 0), build(128, 0)
    weights = trained.model.state_dict()
    of_reference = {**weights, "bert.pooler.dense.bias": torch.zeros(128)}
    for kept in (weights, {"step": 3, "model": weights}, of_reference):
        torch.save(kept, path)
        for one in empty.parameters():
            one.data.zero_()
        _load(empty, path)
        pairs = zip(trained.parameters(), empty.parameters(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
    torch.save({"conv.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"weights\.pt: not the state_dict of this model: .*Missing key"):
        _load(empty, path)
    path.write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"weights\.pt: found no weights"):
        _load(empty, path)


@pytest.mark.usefixtures("_installed")
@pytest.mark.slow
@pytest.mark.parametrize("scenario", long_but(1, ["Server", "SingleStream", "Offline"]))
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("RuntimeError", "RuntimeError: the device is gone\n"),
        ("MemoryError", "MemoryError: the device is gone; use a smaller batch_size"),
    ],
)
def test_a_backend_that_crashes_ends_the_run_with_its_cause(
    tmp_path: Path, scenario: str, failure: str, told: str
) -> None:
    program = SUPPORT / "failing_inference.py"
    done = subprocess.run(
        [sys.executable, program, scenario, failure],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(rf"failed at a batch of [1-4] samples: {told}", done.stderr)
    assert 'raise {"MemoryError"' in done.stderr, "the traceback names the line"


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (
            {"scenario": "SingleStream", "target_qps": 5},
            "sends queries as fast as they are answered; leave out target_qps",
        ),
        ({"mode": "accuracy"}, "needs data with labels"),
        ({"backend": "onnxruntime", "compile": True}, "neither compile nor bf16"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(params: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        INFERENCE.params(**params)


def test_more_than_one_rank_is_refused_when_it_is_planned() -> None:
    with pytest.raises(InputError, match="found shape 2x1; LoadGen drives one process: use shape 1x1"):
        INFERENCE.task(INFERENCE.params(), Shape(2, 1), 1)


def test_a_log_that_is_cut_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_text("")
    reading = read(tmp_path, {})
    assert reading.measurements == ()
    assert reading.problems == ("no log has a line of the program: it printed nothing, or printed elsewhere",)


@pytest.mark.long
def test_the_documents_suite_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = (ROOT / "docs" / "how-to" / "inference.md").read_text()
    suite, systems = re.findall(r"^```yaml\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(suite)
    Path("systems.yaml").write_text(systems)
    ran = CliRunner().invoke(assay, ["plan", "suite.yaml", "--json"])
    assert ran.exit_code == 0, ran.output
    assert len(json.loads(ran.stdout)["trials"]) == (1 + 1 + 4 + 4) * 2 * 5


@pytest.mark.usefixtures("_installed")
@pytest.mark.torch
@pytest.mark.long
def test_a_run_keeps_loadgens_four_files_and_a_bad_image_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials of `assay run`: one whose logs `assay score` takes, one whose data can't be read."""
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "cut.png").write_bytes(b"\x89PNG\r\n")
    benchmark = {"workload": "inference", "params": dict(SMALL)}
    spoilt = {"workload": "inference", "params": {**SMALL, "data": str(tmp_path / "images")}}
    suite = {"suite": "inference", "systems": ["here"], "repeats": 1, "shapes": ["1x1"]}
    suite["benchmarks"] = {"good": benchmark, "spoilt": spoilt}
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    here = {"here": {"launcher": "local", "env": {"OMP_NUM_THREADS": "1"}}}
    (tmp_path / "systems.yaml").write_text(json.dumps(here))
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(assay, ["run", "suite.yaml"])
    good, bad = sorted(find(tmp_path / "runs", "inference"), key=lambda result: result.run.trial.id)
    assert good.run.cause == ""
    kept = tmp_path / "runs" / good.run.id / "attempt-1" / "outputs"
    assert sorted(path.name for path in kept.iterdir()) == [
        f"mlperf_log_{name}" for name in ("accuracy.json", "detail.txt", "summary.txt", "trace.json")
    ]
    scored = json.loads(CliRunner().invoke(assay, ["score", str(kept), "--json"]).stdout)
    assert scored["inference"][0]["score"]["value"] == good.reading.measurements[0].value
    assert bad.run.cause == "rank 0 exited 1"
    log = (tmp_path / "runs" / bad.run.id / "attempt-1" / "logs" / "rank-0.log").read_text()
    assert "failed at reading its samples: ValueError" in log.splitlines()[-1]
    assert "cut.png: can't be decoded" in log.splitlines()[-1]
    assert bad.reading.measurements == ()

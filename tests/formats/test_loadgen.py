"""Runs of MLPerf inference, on real logs that LoadGen writes here for each scenario."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.doubts.inference import doubts_of_inference
from assay.analyse.mlperf.inference_rules import check_inference
from assay.analyse.mlperf.inference_targets import inference_task, latency_bounds_ns
from assay.analyse.mlperf.rules import NOT_VERIFIED
from assay.cli.question_command import command_of
from assay.formats.loadgen import find_runs, inference_run, logs_of
from assay.formats.loadgen_text import DETAIL, SUMMARY, stated_in_summary
from assay.formats.mlperf_inference import app_run, inference_runs, is_app_log, told_apart
from assay.questions.import_ import Import
from assay.questions.score import Score
from assay.records import InferenceRun
from assay.store import find
from conftest import SUPPORT, long_rows_but, require

IMPORT = command_of(Import)
PROGRAM = SUPPORT / "loadgen_program.py"
RUNS = {  # folder → scenario, mode, minimum duration in ms and queries, expected QPS, seed, tokens
    "single": ("SingleStream", "PerformanceOnly", 200, 100, 1, 7, "no"),
    "multi": ("MultiStream", "PerformanceOnly", 100, 700, 1, 7, "no"),
    "server": ("Server", "PerformanceOnly", 200, 600, 800, 18209322760996052031, "no"),
    "tokens": ("Server", "PerformanceOnly", 200, 600, 800, 7, "yes"),
    "offline": ("Offline", "PerformanceOnly", 50, 1, 10_000, 0, "no"),
    "too-short": ("Offline", "PerformanceOnly", 2000, 1, 10, 7, "no"),
    "too-few": ("MultiStream", "PerformanceOnly", 50, 100, 1, 7, "no"),
    "accuracy": ("Offline", "AccuracyOnly", 200, 1, 10, 7, "no"),
}


@pytest.fixture(scope="session")
def loadgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with LoadGen's logs of each of RUNS."""
    there = importlib.util.find_spec("mlperf_loadgen") is not None
    require("loadgen", there, "the package mlcommons-loadgen is not installed")
    root = tmp_path_factory.mktemp("loadgen")
    for name, (scenario, *rest) in RUNS.items():
        (root / name).mkdir()
        command = [sys.executable, str(PROGRAM), scenario, str(root / name), *map(str, rest)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return root


def run_in(folder: Path) -> InferenceRun:
    return inference_run(logs_of(folder), name=folder.name)


def detail_value(folder: Path, key: str) -> Any:
    found = re.findall(rf'"key": "{re.escape(key)}", "value": ([^,]*),', (folder / DETAIL).read_text())
    return json.loads(found[-1])


@pytest.mark.parametrize(
    ("name", "metric", "unit", "key", "factor"),
    long_rows_but(
        2,
        [
            ("single", "latency_estimate", "s", "early_stopping_latency_ss", 1e-9),
            ("server", "throughput", "samples/s", "result_completed_samples_per_sec", 1),
            ("multi", "latency_estimate", "s", "early_stopping_latency_ms", 1e-9),
            ("offline", "throughput", "samples/s", "result_samples_per_second", 1),
        ],
    ),
)
def test_each_scenario_is_judged_by_its_own_figure(
    loadgen: Path, name: str, metric: str, unit: str, key: str, factor: float
) -> None:
    run = run_in(loadgen / name)
    assert (run.scenario, run.mode, run.validity) == (RUNS[name][0], "PerformanceOnly", "VALID")
    assert (run.problem, run.contradictions) == ("", ())
    assert run.score is not None
    assert (run.score.metric, run.score.unit) == (metric, unit)
    assert run.score.value == pytest.approx(detail_value(loadgen / name, key) * factor)
    assert run.figures[0] == run.score
    line = (loadgen / name / run.score.file).read_text().splitlines()[run.score.line - 1]
    assert key in line


def test_the_estimate_of_early_stopping_is_no_better_than_the_percentile(loadgen: Path) -> None:
    for name, percentile in (("single", 90.0), ("multi", 99.0)):
        run = run_in(loadgen / name)
        of = {m.labels["percentile"]: m.value for m in run.figures if m.metric == "latency"}
        assert run.score is not None
        assert of[percentile] <= run.score.value <= of[99.9]


def test_the_latency_of_multistream_is_that_of_a_query(loadgen: Path) -> None:
    run = run_in(loadgen / "multi")
    (p90,) = [m for m in run.figures if m.labels.get("percentile") == 90.0]
    key = "result_90.00_percentile_per_query_latency_ns"
    assert p90.value == pytest.approx(detail_value(loadgen / "multi", key) * 1e-9)


def test_a_run_with_tokens_has_their_rate_and_latencies(loadgen: Path) -> None:
    run = run_in(loadgen / "tokens")
    samples = next(m for m in run.figures if m.metric == "throughput")
    assert run.score is not None
    assert (run.score.metric, run.score.unit) == ("token_throughput", "tokens/s")
    assert run.score.value == pytest.approx(5 * samples.value, rel=0.01)
    for metric in ("first_token", "time_per_token"):
        points = [m for m in run.figures if m.metric == metric]
        assert [m.labels["percentile"] for m in points] == [50.0, 90.0, 95.0, 97.0, 99.0, 99.9]
        assert all(0 < m.value < 1 for m in points)


@pytest.mark.parametrize("name", ["single", "multi", "server", "offline"])
def test_the_summary_alone_says_the_same_as_the_detail_log(loadgen: Path, name: str) -> None:
    detail, summary = (inference_run([loadgen / name / log], name=name) for log in (DETAIL, SUMMARY))
    assert (summary.scenario, summary.validity) == (detail.scenario, detail.validity)
    assert detail.score is not None
    assert summary.score is not None
    assert summary.score.value == pytest.approx(detail.score.value, rel=1e-5)
    of_detail = {(m.metric, *m.labels.values()): m.value for m in detail.figures}
    of_summary = {(m.metric, *m.labels.values()): m.value for m in summary.figures}
    assert of_summary == pytest.approx(of_detail, rel=1e-5)
    settings_of = {key for key in summary.stated if key.startswith("effective_")}
    assert {"effective_min_duration_ms", "effective_min_query_count", "effective_qsl_rng_seed"} <= settings_of
    assert all(summary.stated[key].value == detail.stated[key].value for key in settings_of)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("too-short", "LoadGen says INVALID: shorter than its minimum duration"),
        ("too-few", "LoadGen says INVALID: too few queries for early stopping"),
        ("accuracy", "measured accuracy, not performance: AccuracyOnly"),
    ],
)
def test_what_is_no_result_of_performance_has_no_figures(loadgen: Path, name: str, problem: str) -> None:
    run = run_in(loadgen / name)
    assert run.problem.startswith(problem)
    assert (run.score, run.figures, doubts_of_inference(run)) == (None, (), ())


def test_a_log_that_is_cut_before_its_verdict_is_no_result(loadgen: Path, tmp_path: Path) -> None:
    text = (loadgen / "single" / DETAIL).read_text()
    (tmp_path / DETAIL).write_text(text[: text.index('"result_validity"')])
    assert run_in(tmp_path).problem.startswith("no result_validity: the run did not finish")
    (tmp_path / DETAIL).write_bytes(b"\xff\xfe nothing\n")
    assert run_in(tmp_path).problem == "no LoadGen line in it"


def test_a_summary_is_one_under_any_name(foreign_logs: Path, tmp_path: Path) -> None:
    other = foreign_logs / "failing" / "loadgen-summary-other-name.txt"
    [run] = inference_runs(told_apart([other])[1])
    assert (run.scenario, run.validity, run.files) == ("Server", "INVALID", (other.name,))
    assert run.stated["result_completed_samples_per_sec"].value == 0.98
    assert run.problem == "LoadGen says INVALID: latency above its bound, too few queries for early stopping"
    done = assay(IMPORT, other, "--name", "x", "--runs", tmp_path, "--json")
    [session] = json.loads(done.stdout)["sessions"]
    assert "LoadGen says INVALID" in session["failed"][0]["cause"]


def test_a_scenario_of_v05_is_read_and_judged_by_what_it_measured(foreign_logs: Path, tmp_path: Path) -> None:
    text = (foreign_logs / "failing" / "loadgen-v0.5-multi-stream-mlperf_log_summary.txt").read_text()
    (tmp_path / SUMMARY).write_text(text)
    run = run_in(tmp_path)
    assert (run.scenario, run.validity) == ("MultiStream", "INVALID")
    assert run.stated["result_samples_per_query"].value == 32
    assert run.problem == "LoadGen says INVALID: latency above its bound"
    (tmp_path / SUMMARY).write_text(text.replace("INVALID", "VALID"))
    assert run_in(tmp_path).problem.startswith("MultiStream of v0.5 is judged by its samples per query, 32")


@pytest.mark.parametrize("log", [DETAIL, SUMMARY])
def test_two_runs_in_one_log_are_no_result(loadgen: Path, tmp_path: Path, log: str) -> None:
    texts = [(loadgen / name / log).read_text() for name in ("single", "offline")]
    for second in texts:
        (tmp_path / log).write_text(texts[0] + second)
        assert "the file holds several runs; put each run in its own file" in run_in(tmp_path).problem


@pytest.mark.parametrize(("name", "percentile"), [("single", 90.0), ("multi", 99.0)])
def test_logs_of_a_loadgen_without_early_stopping_are_judged_by_the_percentile(
    loadgen: Path, tmp_path: Path, name: str, percentile: float
) -> None:
    lines = (loadgen / name / DETAIL).read_text().splitlines(keepends=True)
    (tmp_path / DETAIL).write_text("".join(line for line in lines if '"early_stopping' not in line))
    run = run_in(tmp_path)
    assert run.score is not None
    assert (run.score.metric, run.score.labels) == ("latency", {"percentile": percentile})
    assert run.figures.count(run.score) == 1


def test_a_detail_log_that_says_nothing_leaves_the_summary(loadgen: Path, tmp_path: Path) -> None:
    shutil.copy(loadgen / "server" / SUMMARY, tmp_path)
    (tmp_path / DETAIL).write_text('"pid": 1, "tid": 1, "ts": 1ns: older than MLLOG\n')
    run = run_in(tmp_path)
    assert (run.validity, run.files) == ("VALID", (SUMMARY,))
    agreement = next(check for check in check_inference(run) if "agree" in check.rule)
    assert agreement.state == "not applicable"


def test_valid_with_short_settings_is_doubted(loadgen: Path) -> None:
    found = {name: doubts_of_inference(run_in(loadgen / name)) for name in ("single", "multi", "server")}
    for doubts in found.values():
        (doubt,) = doubts
        assert doubt.code == "short-settings"
    told = found["single"][0].evidence
    assert "effective_min_duration_ms is 200, the rules require at least 600000" in told


def official(folder: Path, to: Path) -> Path:
    """The same logs as if LoadGen had been given the official settings."""
    for log in logs_of(folder):
        text = log.read_text()
        text = re.sub(r'("effective_min_duration_ms", "value": )\d+', r"\g<1>600000", text)
        text = re.sub(r'("effective_min_sample_count", "value": )\d+', r"\g<1>24576", text)
        text = re.sub(r'(_rng_seed", "value": )0', r"\g<1>9", text)
        text = re.sub(r"(min_duration \(ms\): )\d+", r"\g<1>600000", text)
        text = re.sub(r"(_rng_seed : )0", r"\g<1>9", text)
        (to / log.name).write_text(text)
    return to


@pytest.mark.parametrize("name", ["single", "multi", "server", "offline"])
def test_official_settings_raise_no_doubt(loadgen: Path, tmp_path: Path, name: str) -> None:
    run = run_in(official(loadgen / name, tmp_path))
    assert doubts_of_inference(run) == ()
    unknown_outside_a_tree = {"accuracy run", "accuracy target", "data set", "latency bound"}
    assert {check.rule for check in check_inference(run) if check.state != "ok"} == unknown_outside_a_tree


@pytest.mark.parametrize(
    ("name", "was", "by", "code", "told"),
    [
        ("multi", '"effective_min_query_count", "value": 700', '"effective_min_query_count", "value": 661',
         "short-settings", "effective_min_query_count is 661, the rules require at least 662"),
        ("multi", '"effective_samples_per_query", "value": 8', '"effective_samples_per_query", "value": 9',
         "short-settings", "the rules require exactly 8"),
        ("offline", '"effective_min_sample_count", "value": 24576',
         '"effective_min_sample_count", "value": 24575', "short-settings",
         "a smaller data set is used completely"),
        ("server", '"effective_target_latency_percentile", "value": 0.99',
         '"effective_target_latency_percentile", "value": 0.9', "short-settings", "percentile is 0.9"),
        ("single", '"effective_qsl_rng_seed", "value": 7', '"effective_qsl_rng_seed", "value": 0',
         "default-seeds", "0, LoadGen's default: effective_qsl_rng_seed"),
        ("single", '"effective_performance_issue_same", "value": false',
         '"effective_performance_issue_same", "value": true', "test-mode",
         "on: effective_performance_issue_same"),
        ("single", '"num_errors", "value": 0', '"num_errors", "value": 2', "logged-errors",
         "num_errors is 2"),
        ("single", '"early_stopping_latency_ss", "value": ', '"early_stopping_latency_ss", "value": 1',
         "logs-disagree", "early_stopping_latency_ss is 1"),
    ],
)  # fmt: skip
def test_each_departure_from_the_rules_is_told_with_its_figures(
    loadgen: Path, tmp_path: Path, name: str, was: str, by: str, code: str, told: str
) -> None:
    folder = official(loadgen / name, tmp_path)
    if code != "logs-disagree":
        (folder / SUMMARY).unlink()
    text = (folder / DETAIL).read_text()
    assert was in text
    (folder / DETAIL).write_text(text.replace(was, by))
    (doubt,) = doubts_of_inference(run_in(folder))
    assert doubt.code == code
    assert told in doubt.evidence


@given(st.data())
def test_whatever_is_left_of_the_logs_is_a_run_or_a_problem(loadgen: Path, data: st.DataObject) -> None:
    folder = loadgen / ".fuzz"  # hidden: no other test sees it
    folder.mkdir(exist_ok=True)
    for log in logs_of(loadgen / data.draw(st.sampled_from(["single", "multi", "server", "offline"]))):
        lines = log.read_bytes().splitlines(keepends=True)
        kept = data.draw(st.lists(st.sampled_from(lines), max_size=30))
        (folder / log.name).write_bytes(b"".join(kept) + data.draw(st.binary(max_size=50)))
    run = run_in(folder)
    assert bool(run.problem) == (run.score is None)
    assert all(check.state in ("ok", "fail", "not applicable") for check in check_inference(run))


F1 = '{{"exact_match": 82.9, "f1": {}}}\nhash=e5f53282\n'


def in_tree(
    loadgen: Path, root: Path, *, benchmark: str = "bert-99", accuracy: str | None = "", of: str = "accuracy"
) -> Path:
    """The folder of a scenario in a tree of results, with the official settings and an accuracy run."""
    scenario = root / "inference_results_v4.1/closed/Acme/results/dgx" / benchmark / "Offline"
    performance = scenario / "performance" / "run_1"
    performance.mkdir(parents=True)
    official(loadgen / "offline", performance)
    if accuracy is not None:
        shutil.copytree(loadgen / of, scenario / "accuracy")
        (scenario / "accuracy" / "accuracy.txt").write_text(accuracy)
    return scenario


def only_run(path: Path) -> InferenceRun:
    [run] = inference_runs(find_runs([path]))
    return run


def codes(run: InferenceRun) -> dict[str, str]:
    """The doubts of a run, but for the small data set that these runs are made with."""
    return {d.code: d.evidence for d in doubts_of_inference(run) if d.code != "other-data-set"}


def test_a_run_in_mlperfs_tree_is_named_by_it_and_joined_with_its_accuracy(
    loadgen: Path, tmp_path: Path
) -> None:
    run = only_run(in_tree(loadgen, tmp_path, accuracy=F1.format(90.3567)))
    assert run.name == "Acme/dgx/bert-99/Offline"
    assert run.place is not None
    assert (run.place.round, run.place.division, run.place.submitter) == ("v4.1", "closed", "Acme")
    assert run.accuracy is not None
    assert {name: s.value for name, s in run.accuracy.figures.items()} == {"F1": 90.3567}
    checks = {check.rule: check for check in check_inference(run)}
    assert checks["accuracy target"].evidence == "F1 is 90.3567, required is at least 89.9653"
    assert checks["accuracy target"].where == "accuracy/accuracy.txt:1"
    assert codes(run) == {}


@pytest.mark.parametrize(
    ("accuracy", "of", "code", "evidence"),
    [
        (F1.format(89.96), "accuracy", "below-asked-accuracy", "F1 is 89.96, required is at least 89.9653"),
        ("accuracy=76.1%", "accuracy", "below-asked-accuracy", "accuracy.txt has no F1"),
        ("", "accuracy", "no-accuracy", "accuracy.txt has no known accuracy metric"),
        (F1.format(91), "offline", "no-accuracy",
         "the folder accuracy has a run of PerformanceOnly; expected a run of AccuracyOnly"),
        (None, "accuracy", "no-accuracy", "there is no folder accuracy next to performance"),
    ],
)  # fmt: skip
def test_a_speed_without_its_accuracy_is_doubted(
    loadgen: Path, tmp_path: Path, accuracy: str | None, of: str, code: str, evidence: str
) -> None:
    assert codes(only_run(in_tree(loadgen, tmp_path, accuracy=accuracy, of=of))) == {code: evidence}


def test_a_folder_of_another_scenario_than_its_log_is_doubted(loadgen: Path, tmp_path: Path) -> None:
    folder = in_tree(loadgen, tmp_path, accuracy=F1.format(91))
    folder.rename(folder.with_name("Interactive"))
    found = codes(only_run(tmp_path))
    assert found == {"logs-disagree": "the folder is for Interactive, but the log for Offline"}


def test_a_run_of_an_audit_test_is_no_result_and_is_not_imported(loadgen: Path, tmp_path: Path) -> None:
    folder = in_tree(loadgen, tmp_path, accuracy=None)
    (folder / "TEST01").mkdir()
    (folder / "performance").rename(folder / "TEST01" / "performance")
    run = only_run(tmp_path)
    assert run.name == "Acme/dgx/bert-99/Offline/TEST01"
    assert codes(run) == {"test-mode": "the run is in the folder of the audit test TEST01"}
    done = assay(IMPORT, tmp_path, "--name", "mine", "--runs", tmp_path / "runs")
    assert "its runs measured for an audit test" in str(done.exception)


@pytest.mark.parametrize(
    ("benchmark", "samples", "short"),
    [
        ("3d-unet-99", 43, None),
        ("3d-unet-99", 42, "at least 43, the data set of 3d-unet-99"),
        ("stable-diffusion-xl", 5000, None),
        ("bert-99", 10_832, "at least 10833, the data set of bert-99"),
        ("resnet50", 24_575, "the rules require at least 24576"),
        ("a-new-model", 10_832, "at least 24576; a smaller data set is used completely"),
    ],
)
def test_a_benchmark_with_a_small_data_set_needs_no_more_samples_than_that(
    loadgen: Path, tmp_path: Path, benchmark: str, samples: int, short: str | None
) -> None:
    folder = in_tree(loadgen, tmp_path, benchmark=benchmark)
    for log in logs_of(folder / "performance" / "run_1"):
        for was in re.findall(r'effective_min_sample_count", "value": \d+', text := log.read_text()):
            text = text.replace(was, re.sub(r"\d+$", str(samples), was))
        log.write_text(text)
    evidence = codes(only_run(folder)).get("short-settings")
    assert (evidence is None) if short is None else (evidence is not None and short in evidence)


def test_a_part_of_the_data_set_is_doubted(loadgen: Path, tmp_path: Path) -> None:
    doubts = doubts_of_inference(only_run(in_tree(loadgen, tmp_path, accuracy=F1.format(91))))
    [doubt] = doubts
    assert doubt.code == "other-data-set"
    assert "the rules' data set has 10833" in doubt.evidence


@pytest.mark.parametrize(
    ("benchmark", "round_", "metric", "value", "holds"),
    [
        ("stable-diffusion-xl", "v4.1", "FID_SCORE", 23.96, False),
        ("stable-diffusion-xl", "v4.1", "FID_SCORE", 23.95, True),
        ("resnet50", "", "accuracy", 75.7, True),
        ("resnet50", "v5.1", "accuracy", 75.69, False),
        ("bert-99.9", "v4.1", "F1", 90.78, False),
        ("mixtral-8x7b", "v4.1", "mbxp", 59.53, True),
        ("mixtral-8x7b", "v5.0", "mbxp", 59.53, False),
        ("llama2-70b-interactive-99", "v5.0", "TOKENS_PER_SAMPLE", 324, False),
        ("gptj-99", "v4.0", "GEN_LEN", 9_000_000, True),
    ],
)
def test_accuracy_targets_are_those_of_the_benchmark_in_its_round(
    benchmark: str, round_: str, metric: str, value: float, holds: bool
) -> None:
    task = inference_task(benchmark, round_)
    assert task is not None
    assert task.accuracy[metric].holds(value) is holds


@pytest.mark.parametrize(("added_ns", "code"), [(0, None), (2 * 10**10, "latency-above-bound")])
def test_a_latency_above_the_benchmarks_own_bound_is_doubted(
    loadgen: Path, tmp_path: Path, added_ns: int, code: str | None
) -> None:
    folder = in_tree(loadgen, tmp_path, benchmark="resnet50", accuracy="accuracy=76.1%")
    performance = folder.rename(folder.with_name("Server")) / "performance" / "run_1"
    official(loadgen / "server", performance)
    (performance / SUMMARY).unlink()
    key = "result_99.00_percentile_latency_ns"
    text = (performance / DETAIL).read_text()
    text = re.sub(rf'("{key}", "value": )\d+', rf"\g<1>{15_000_000 + added_ns}", text)
    (performance / DETAIL).write_text(text)
    assert list(codes(only_run(tmp_path))) == ([code] if code else [])


@pytest.mark.parametrize(
    ("benchmark", "scenario", "first_token_ns"),
    [
        ("llama2-70b-99", "Server", 2e9),
        ("llama2-70b-99.9", "Interactive", 450e6),
        ("llama2-70b-interactive-99", "Server", 450e6),
        ("llama3_1-405b", "Server", 6e9),
    ],
)
def test_interactive_has_tighter_bounds_by_its_folder_or_its_benchmark(
    benchmark: str, scenario: str, first_token_ns: float
) -> None:
    bounds = latency_bounds_ns(benchmark, scenario)
    assert bounds["result_first_token_99.00_percentile_latency_ns"] == first_token_ns
    assert latency_bounds_ns(benchmark, "Offline") == {}


@pytest.mark.parametrize(
    ("benchmark", "round_"), [("3d-unet-99", "v0.7"), ("a-new-model", "v4.1"), ("mixtral-8x7b", ""), ("", "")]
)
def test_what_a_benchmark_asks_for_is_not_known_outside_the_table(benchmark: str, round_: str) -> None:
    assert inference_task(benchmark, round_) is None


LINE = (
    "TestScenario.SingleStream qps=163.51, mean=0.0061, time=60.040, queries=9817, "
    "tiles=50.0:0.0059,80.0:0.0063,90.0:0.0066,95.0:0.0070,99.0:0.0083,99.9:0.0102"
)


def test_the_line_of_the_reference_app_is_read_but_has_no_score(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"INFO:main:starting\n\nnoise\n{LINE}\n")
    run = app_run(path, name="run.log")
    assert (run.scenario, run.validity, run.score, run.problem) == ("SingleStream", None, None, "")
    figures = {(m.metric, *m.labels.values()): (m.value, m.unit, m.line) for m in run.figures}
    assert figures["qps",] == (163.51, "queries/s", 4)
    assert figures["mean_latency",] == (0.0061, "s", 4)
    assert figures["latency", 99.9] == (0.0102, "s", 4)
    assert len(figures) == 8
    assert [doubt.code for doubt in doubts_of_inference(run)] == ["no-validity"]


@pytest.mark.parametrize("qps", ["163.51", "1.0"])
def test_two_results_of_the_app_in_one_log_are_no_result(tmp_path: Path, qps: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"{LINE.replace('163.51', qps)}\nnoise\n{LINE}\n")
    assert app_run(path, name="run.log").problem == (
        "line 3: a result after 1 other: the file holds several runs; put each run in its own file"
    )


def test_the_percentiles_of_an_older_app_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "TestScenario.SingleStream qps=67.94, mean=0.014653, queries=683, t=80:0.0154,99.9:0.0627\n"
    )
    run = app_run(path, name="run.log")
    assert [(m.labels["percentile"], m.value) for m in run.figures[2:]] == [(80.0, 0.0154), (99.9, 0.0627)]
    assert set(run.stated) == {"qps", "mean", "queries"}


@pytest.mark.parametrize("text", ["", "qps=1, mean=2\n", "TestScenario.Nothing qps=1, mean=2\n", "\xff" * 9])
def test_a_log_without_the_apps_line_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(text, encoding="latin-1")
    assert not is_app_log(path)
    assert app_run(path, name="run.log").problem.startswith("no line of MLPerf Inference's reference app")


def test_the_apps_line_is_found_with_its_number_at_the_end_of_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("x" * 99 + "\n" + ("y" * 999 + "\n") * 3000 + LINE)
    (qps, *_) = app_run(path, name="run.log").figures
    assert qps.line == 3002


def assay(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_score_shows_inference_beside_its_settings_and_label(loadgen: Path) -> None:
    done = assay(command_of(Score), loadgen / "single", "--rules")
    assert done.exit_code == 1  # the settings are short
    assert "90th-percentile latency, early-stopping estimate" in done.stdout
    assert "short-settings" in done.stdout
    assert done.stdout.count(NOT_VERIFIED) == 1
    assert assay(command_of(Score), loadgen / "single").exit_code == 0
    assert assay(command_of(Score), loadgen / "too-short").exit_code == 1
    assert assay(command_of(Score), loadgen / "accuracy").exit_code == 0


def test_score_gives_every_run_of_a_tree_as_json(loadgen: Path) -> None:
    document = json.loads(assay(command_of(Score), loadgen, "--rules", "--json").stdout)
    assert (document["sets"], document["label"]) == ([], NOT_VERIFIED)
    runs = {one["run"].rpartition("/")[2]: one for one in document["inference"]}
    assert set(runs) == set(RUNS)
    assert runs["offline"]["score"]["metric"] == "throughput"
    assert runs["offline"]["settings"]["effective_min_duration_ms"] == 50
    assert runs["too-short"]["score"] is None
    checks = {check["rule"]: check for check in runs["multi"]["checks"]}
    assert checks["minimum queries"]["state"] == "ok"
    assert re.fullmatch(r"mlperf_log_detail\.txt:\d+", checks["minimum queries"]["where"])


def test_training_and_inference_of_one_tree_are_both_scored(loadgen: Path, tmp_path: Path) -> None:
    shutil.copytree(loadgen / "single", tmp_path / "single")
    (tmp_path / "resnet").mkdir()
    (tmp_path / "resnet" / "result_0.txt").write_text("")
    document = json.loads(assay(command_of(Score), tmp_path, "--json").stdout)
    assert (len(document["sets"]), len(document["inference"])) == (1, 1)


def test_a_detail_log_named_outright_stands_for_its_folder(loadgen: Path) -> None:
    assert find_runs([loadgen / "single" / DETAIL, loadgen / "single"]) == [loadgen / "single"]
    assert find_runs([loadgen / "absent"]) == []


def test_imported_inference_is_kept_once_with_the_place_that_its_tree_tells(
    loadgen: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "results" / "dgx" / "bert" / "Server" / "performance"
    for n in (1, 2):
        shutil.copytree(loadgen / "server", tree / f"run_{n}")
    shutil.copytree(loadgen / "accuracy", tree.parent / "accuracy")
    shutil.copytree(loadgen / "too-short", tree / "run_3")
    log = tmp_path / "app.log"
    log.write_text(LINE)
    runs_dir = tmp_path / "runs"
    arguments = (tmp_path / "results", log, "--name", "mine", "--shape", "1x8", "--runs", runs_dir, "--json")
    first = json.loads(assay(IMPORT, *arguments).stdout)
    (session,) = first["sessions"]
    assert (session["added"], session["runs"]) == (True, 4)
    assert [failed["cause"] for failed in session["failed"]] == [
        "LoadGen says INVALID: shorter than its minimum duration"
    ]
    assert "1 of 5 runs measured accuracy and were skipped" in session["notes"]
    assert any("short-settings" in note for note in session["notes"])
    assert any("run_1 and" in note and "a copy is not a repeat" in note for note in session["notes"])
    again = json.loads(assay(IMPORT, *arguments).stdout)
    assert again["sessions"][0]["added"] is False
    results = {result.run.trial.id: result for result in find(runs_dir, "mine")}
    assert set(results) >= {
        "bert-Server-1x8-dgx-r01",
        "bert-Server-1x8-dgx-r02",
        "inference-SingleStream-app-1x8-unknown-r01",
    }
    reading = results["bert-Server-1x8-dgx-r01"].reading
    assert reading.facts["effective_min_duration_ms"] == 200
    assert reading.facts["effective_qsl_rng_seed"] == 18209322760996052031, "64 bits, as rounds publish them"
    assert reading.measurements[0] == run_in(loadgen / "server").score


def test_inference_that_measured_only_accuracy_is_refused(loadgen: Path, tmp_path: Path) -> None:
    done = assay(IMPORT, loadgen / "accuracy", "--name", "mine", "--runs", tmp_path / "runs")
    assert done.exit_code != 0
    assert "measured accuracy; there is no performance run to import" in str(done.exception)


def test_a_summary_states_what_it_says_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / SUMMARY
    path.write_text("Scenario : Offline\nSamples per second: nan\nResult is : VALID\n")
    assert {key: stated.value for key, stated in stated_in_summary(path).items()} == {
        "effective_scenario": "Offline",
        "result_samples_per_second": "nan",
        "result_validity": "VALID",
    }
    run = inference_run([path], name="x")
    assert (run.score, run.problem) == (None, "no result_samples_per_second in it")


SUMMARY_TEXT = """================================================
MLPerf Results Summary
================================================
SUT name : a system
Scenario : Offline
Mode     : PerformanceOnly
Samples per second: 50
Result is : VALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: Yes

================================================
Additional Stats
================================================
Min latency (ns)                : 1000
Max latency (ns)                : 800000000000
99.00 percentile latency (ns)   : 790000000000

================================================
Test Parameters Used
================================================
samples_per_query : 40000
min_duration (ms): 600000
min_query_count : 1
qsl_rng_seed : 6023615788873153749

No warnings encountered during test.

No errors encountered during test.
"""


def score_of(tmp_path: Path, text: str | bytes) -> tuple[InferenceRun, list[str]]:
    """A summary's run, found like a file that a user names, and the codes of its doubts about itself."""
    path = tmp_path / "run.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    [run] = inference_runs(told_apart([path])[1])
    about_itself = ("logs-disagree", "logged-errors", "settings-unknown")
    return run, [doubt.code for doubt in doubts_of_inference(run) if doubt.code in about_itself]


@pytest.mark.parametrize(
    "around",
    [
        lambda text: re.sub("^", "2026-11-20T10:00:00.123456789Z ", text, flags=re.MULTILINE),
        lambda text: re.sub("^", "0: ", text, flags=re.MULTILINE),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.encode("utf-16"),
        lambda text: text,
    ],
    ids=["kubectl", "srun", "CRLF", "no-break spaces", "UTF-16", "nothing"],
)
def test_a_summary_is_read_with_what_others_put_around_it(tmp_path: Path, around: Any) -> None:
    run, doubts = score_of(tmp_path, around(SUMMARY_TEXT))
    assert run.score is not None
    assert (run.score.value, run.score.line, run.problem, doubts) == (50.0, 7, "", [])
    assert run.stated["effective_min_duration_ms"].value == 600_000


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("Min duration satisfied : Yes", "Min duration satisfied : NO", "logs-disagree"),
        ("Early stopping satisfied: Yes", "Early stopping satisfied: NO", "logs-disagree"),
        ("Samples per second: 50", "Samples per second: 500", "logs-disagree"),
        ("No errors encountered during test.", "3 ERRORS encountered. See detailed log.", "logged-errors"),
        ("No errors encountered during test.", "1 ERROR encountered. See detailed log.", "logged-errors"),
    ],
)
def test_a_summary_that_contradicts_itself_is_doubted(tmp_path: Path, old: str, new: str, code: str) -> None:
    assert score_of(tmp_path, SUMMARY_TEXT.replace(old, new))[1] == [code]


def test_a_summary_that_is_cut_before_its_settings_is_doubted(tmp_path: Path) -> None:
    assert score_of(tmp_path, SUMMARY_TEXT.partition("Test Parameters")[0])[1] == ["settings-unknown"]

"""Doubts about imported runs of MLPerf inference: what raises each, what must not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.analyse.judgement import compare_with_doubts
from assay.formats.mlperf_inference import INFERRED, THROUGHPUT, TOKENS
from assay.records import Doubt, Measurement, Metric, Result, Scalar
from assay.view import report
from assay.view.contents import gather
from stated_runs import metrics, side

OFFICIAL: dict[str, Scalar] = {
    "scenario": "Server",
    "validity": "VALID",
    "effective_min_duration_ms": 600_000,
    "effective_target_latency_percentile": 0.99,
}


def imported(system: str, workload: str = "loadgen", **facts: Scalar) -> list[Result]:
    """Runs of LoadGen at the official settings, but for the facts given."""
    runs = side([100 + 0.1 * (n % 3) for n in range(5)], system=system)
    stated = {**OFFICIAL, **facts}
    return [
        replace(
            run,
            run=replace(run.run, trial=replace(run.run.trial, workload=workload)),
            reading=replace(run.reading, facts=stated),
        )
        for run in runs
    ]


def raised(a: list[Result], b: list[Result]) -> dict[str, Doubt]:
    [found] = compare_with_doubts(a, b, margin=0.02, names=("A", "B"), metrics=metrics()).comparisons
    return {doubt.code: doubt for doubt in found.doubts}


@pytest.mark.parametrize("workload", ["loadgen", "inference"])
def test_valid_by_short_settings_is_doubted_in_a_comparison(workload: str) -> None:
    short = imported("b", workload=workload, effective_min_duration_ms=60_000)
    found = raised(imported("a"), short)["short-settings"]
    assert found.evidence == (
        "minimum duration: effective_min_duration_ms is 60000, the rules require at least 600000"
    )
    assert "short-settings" not in raised(imported("a"), imported("b"))


def test_a_report_on_one_system_says_that_a_valid_short_run_is_no_result_of_mlperf() -> None:
    short = imported("a", workload="inference", effective_min_duration_ms=60_000)
    for runs, told in ((short, True), (imported("a", workload="inference"), False)):
        found = gather({"a": runs}, metrics()).doubts
        [places] = [places for doubt, places in found if doubt.code == "short-settings"] or [()]
        assert bool(places) == told
    assert "before calling them MLPerf results" in report.markdown_text(gather({"a": short}, metrics()))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            {"scenario": "Server", "effective_target_qps": 800},
            "LoadGen sent 800 queries/s and the system kept up",
        ),
        ({"scenario": "Offline", "effective_target_qps": 800}, ""),
        (
            {"scenario": "Server", "workload": "inference", "effective_target_qps": 8, "searched": False},
            "LoadGen sent 8 queries/s",
        ),
        ({"scenario": "Server", "workload": "inference", "effective_target_qps": 8, "searched": True}, ""),
        ({"scenario": "server", "workload": "llm-serving", "rate": 4.0}, "the client sent 4.0 queries/s"),
        ({"scenario": "search", "workload": "llm-serving", "rate": 4.0}, ""),
        ({"scenario": "Server", "workload": "train", "effective_target_qps": 800}, ""),
    ],
)
def test_a_rate_that_was_set_is_no_rate_that_was_reached(facts: dict[str, Scalar], told: str) -> None:
    found = raised(imported("a", **facts), imported("b", **facts))  # type: ignore[arg-type]
    assert ("rate-was-set" in found) == bool(told)
    if told:
        assert told in found["rate-was-set"].evidence


@pytest.mark.parametrize("metric", [THROUGHPUT, TOKENS, INFERRED], ids=lambda metric: metric.name)
def test_every_figure_that_judges_server_follows_the_rate_that_was_set(metric: Metric) -> None:
    sides = [
        [
            replace(
                run,
                reading=replace(
                    run.reading,
                    measurements=tuple(
                        replace(one, metric=metric.name, unit=metric.unit) for one in run.reading.measurements
                    ),
                ),
            )
            for run in imported(system, effective_target_qps=800)
        ]
        for system in "ab"
    ]
    [found] = compare_with_doubts(
        *sides, margin=0.02, names=("A", "B"), metrics=lambda _run: {metric.name: metric}
    ).comparisons
    assert "rate-was-set" in {doubt.code for doubt in found.doubts}
    assert found.point.metric == metric.name


def test_a_small_data_set_is_no_short_setting_of_an_imported_benchmark() -> None:
    facts = {"scenario": "Offline", "effective_min_sample_count": 43}
    params = {"benchmark": "3d-unet-99", "round": "v4.1"}
    sides = [
        [
            replace(run, run=replace(run.run, trial=replace(run.run.trial, params=params)))
            for run in imported(system, **facts)  # type: ignore[arg-type]
        ]
        for system in "ab"
    ]
    assert "short-settings" not in raised(*sides)
    unnamed = (imported(system, **facts) for system in "ab")  # type: ignore[arg-type]
    assert "short-settings" in raised(*unnamed)


def test_answers_of_other_lengths_are_doubted_beyond_the_margin() -> None:
    a, near, far = (
        imported(system, workload="llm-serving", mean_input_tokens=100.0, mean_output_tokens=tokens)
        for system, tokens in (("a", 128.0), ("b", 129.0), ("b", 64.0))
    )
    assert "different-lengths" not in raised(a, near)
    assert raised(a, far)["different-lengths"].evidence == "answers of 128 and 64 tokens, -50 %"


@pytest.mark.parametrize(("lag_s", "late"), [(0.009, False), (0.02, True)])
def test_a_client_that_was_late_itself_is_doubted(lag_s: float, late: bool) -> None:
    median = Measurement("first_token", 0.1, "s", {"percentile": 50.0}, "rank-0.log", 9)
    sides = [
        [
            replace(run, reading=replace(run.reading, measurements=(*run.reading.measurements, median)))
            for run in imported(system, workload="llm-serving", client_lag_p99_s=lag)
        ]
        for system, lag in (("a", 0.001), ("b", lag_s))
    ]
    claims = compare_with_doubts(*sides, margin=0.02, names=("A", "B"), metrics=metrics()).comparisons
    found = {doubt.code: doubt.evidence for claim in claims for doubt in claim.doubts}
    assert ("client-late" in found) == late
    if late:
        assert found["client-late"].startswith("B: in 1 % of its checks the client was 20 ms late")


def test_other_programs_facts_of_the_same_names_raise_nothing() -> None:
    own = [imported(system, workload="train", effective_min_duration_ms=1) for system in ("a", "b")]
    assert "short-settings" not in raised(*own)


def test_an_accuracy_below_99_percent_of_the_references_is_doubted() -> None:
    facts: dict[str, Scalar] = {"model": "retinanet", "samples": 24_781, "image_size": 800}

    def answered(system: str, accuracy: float, **other: Scalar) -> list[Result]:
        runs = imported(system, workload="inference", **facts | other)
        figure = Measurement("accuracy", accuracy, "", {}, "rank-0.log", 1)
        return [replace(run, reading=replace(run.reading, measurements=(figure,))) for run in runs]

    def doubted(b: list[Result]) -> dict[str, Doubt]:
        table = {"accuracy": Metric("accuracy", "", "higher", "of the answers", scales=False)}
        [found] = compare_with_doubts(
            answered("a", 0.3718), b, margin=0.02, names=("A", "B"), metrics=lambda _: table
        ).comparisons
        return {doubt.code: doubt for doubt in found.doubts}

    found = doubted(answered("b", 0.3716))["below-asked-accuracy"]
    assert found.evidence == "retinanet has 0.3716, the rules require 0.3717"
    assert "below-asked-accuracy" not in doubted(answered("b", 0.372))
    assert "below-asked-accuracy" not in doubted(answered("b", 0.1, samples=100)), "not the rules' data"


def tails(system: str, requests: int, **stated: Scalar) -> list[Result]:
    """Runs of a server that state the 99th percentile of this many requests."""
    runs = side([1.0, 1.01, 0.99, 1.02, 1.0], system=system, labels={"percentile": 99.0})
    facts = {"requests": requests, "failed_requests": 0, **stated}
    return [replace(run, reading=replace(run.reading, facts=facts)) for run in runs]


def test_a_comparison_of_percentiles_is_doubted_if_one_side_rests_on_much_fewer_requests() -> None:
    found = raised(tails("a", 500), tails("b", 5000))["few-beyond-percentile"]
    assert found.evidence == (
        "percentile 99 of 500 requests in a run of A: 5 of them beyond it, 10 take 1000 requests"
    )
    assert "few-beyond-percentile" not in raised(tails("a", 500), tails("b", 520))
    assert "few-beyond-percentile" not in raised(tails("a", 1000), tails("b", 5000))


def test_percentiles_of_a_client_that_ranked_otherwise_are_doubted() -> None:
    new = {"percentile_rank": "(n + 1) p"}
    found = raised(tails("a", 500), tails("b", 500, **new))["percentile-rank-differs"]
    assert found.evidence == "A: rank n p; B: (n + 1) p"
    assert "percentile-rank-differs" not in raised(tails("a", 500, **new), tails("b", 500, **new))

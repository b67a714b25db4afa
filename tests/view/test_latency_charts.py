"""Latency by percentile, and throughput against the bound of LoadGen's Server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from assay.records import Measurement, Result, Scalar
from assay.view.blocks import Chart
from assay.view.charts import charts
from assay.view.contents import gather
from served_runs import BOUND_S, metrics, served
from stated_runs import result


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Chart]]:
    """Charts by kind."""
    found: dict[str, list[Chart]] = {}
    for chart in charts(gather(served(), metrics)):
        found.setdefault(chart.kind, []).append(chart)
    return found


def rows(chart: Chart, name: str) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = chart.spec["datasets"][name]
    return table


def test_each_valid_run_of_server_stands_at_its_rate_and_99th_percentile(
    drawn: dict[str, list[Chart]],
) -> None:
    (chart,) = drawn["served"]
    runs = rows(chart, "runs")
    assert len(runs) == 3 * (5 + 3)
    assert all(run["value"] < BOUND_S * 1e3 for run in runs), "in milliseconds"
    first = next(run for run in runs if run["run"] == "resnet-1x1-here-r01-200.0")
    assert (first["x"], first["value"]) == (
        pytest.approx(199.7),
        pytest.approx(1e3 * 0.002828 / (1 - 200 / 747.5), rel=1e-4),
    )
    assert [bound["value"] for bound in rows(chart, "bounds")] == [15.0]


def test_an_invalid_run_is_a_cross_at_the_rate_that_was_sent_and_no_latency(
    drawn: dict[str, list[Chart]],
) -> None:
    (chart,) = drawn["served"]
    lost = rows(chart, "lost")
    assert {(run["side"], run["x"], run["value"]) for run in lost} == {
        ("there", 500, 15.0),
        ("there", 600, 15.0),
    }
    assert "there was sent 500 queries/s, INVALID at a bound of 15 ms" in chart.words
    assert "there held 500" not in chart.words


def test_a_line_goes_through_each_settings_mean(drawn: dict[str, list[Chart]]) -> None:
    means = rows(drawn["served"][0], "means")
    assert [round(mean["x"]) for mean in means if mean["side"] == "here"] == [200, 300, 399, 499, 599]
    assert [round(mean["x"]) for mean in means if mean["side"] == "there"] == [200, 300, 399]


def test_runs_of_one_rate_make_no_curve() -> None:
    alone = {
        system: [r for r in results if r.run.trial.varied["target_qps"] == 200.0]
        for system, results in served().items()
    }
    assert not [chart for chart in charts(gather(alone, metrics)) if chart.kind == "served"]


def test_latency_has_a_curve_over_percentiles_for_each_setting(drawn: dict[str, list[Chart]]) -> None:
    assert len(drawn["latency"]) == 5
    first = drawn["latency"][0]
    assert first.caption == "resnet latency by percentile, 1 worker, target qps 200.0"
    assert len(rows(first, "rows")) == 2 * 6
    x = [row["x"] for row in rows(first, "rows") if row["side"] == "here"]
    assert x == sorted(x)
    assert x[0] == 1.0, "half are above the median"
    assert "here at 99.9 %: " in first.words
    json.dumps(first.spec, allow_nan=False)


def under_load(scenario: str, swept: dict[str, float], **facts: Scalar) -> Result:
    """A run of llm-serving that held what it was sent, at a time to first token that grows with it."""
    [(_, load)] = swept.items()
    one = result(load, system="here", benchmark="chat", varied=swept)
    said = {"token_throughput": 100 * load, "throughput": load, "first_token": 0.1 + load / 100}
    measured = tuple(
        Measurement(name, value, "", {"percentile": 99.0} if name == "first_token" else {}, "rank-0.log", 1)
        for name, value in said.items()
    )
    stated: dict[str, Scalar] = {"scenario": scenario, "rate": load, **facts}
    problems = ("INVALID: late",) if facts.get("validity") == "INVALID" else ()
    trial = replace(one.run.trial, workload="llm-serving")
    reading = replace(one.reading, measurements=measured, facts=stated, problems=problems)
    return replace(one, run=replace(one.run, trial=trial), reading=reading)


def curves(*results: Result) -> list[Chart]:
    drawn = charts(gather({"here": list(results)}, metrics))
    return [chart for chart in drawn if chart.kind == "served"]


def test_arrivals_at_several_rates_are_requests_against_the_time_to_the_first_token() -> None:
    bound: dict[str, Scalar] = {"ttft_bound_s": 0.15}
    held = [under_load("server", {"rate": rate}, validity="VALID", **bound) for rate in (2.0, 4.0)]
    lost = under_load("server", {"rate": 8.0}, validity="INVALID", **bound)
    [chart] = curves(*held, lost)
    assert [(run["x"], run["value"]) for run in rows(chart, "runs")] == [(2.0, 120.0), (4.0, 140.0)]
    assert [(run["x"], run["value"]) for run in rows(chart, "lost")] == [(8.0, 150.0)]
    assert chart.caption == "chat arrivals, 1 worker, bound 150 ms; crosses: rate sent, INVALID"
    assert "here sustained 4 requests/s at 140 ms" in chart.words


def test_users_are_tokens_against_the_time_to_the_first_token_and_without_a_bound_nothing_is_crossed() -> (
    None
):
    [chart] = curves(*(under_load("users", {"users": users}) for users in (1, 16)))
    assert [run["x"] for run in rows(chart, "runs")] == [100, 1600]
    assert (rows(chart, "lost"), rows(chart, "bounds")) == ([], [])
    assert chart.caption == "chat users, 1 worker"


def test_a_search_is_one_figure_and_no_curve() -> None:
    assert curves(*(under_load("search", {"rate": rate}) for rate in (2.0, 4.0))) == []

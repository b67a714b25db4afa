from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

import made_results
from assay.formats.run_timeline import RunTimeline
from assay.records import Result
from assay.telemetry.profile import TelemetryLine, TelemetryPanel, TelemetryProfile
from assay.view import charts
from assay.view.blocks import Chart
from assay.view.charts.chart import ratio_ticks
from assay.view.charts.run_time import RunTime, run_panels
from assay.view.contents import gather
from made_results import by_system, failed, quickstart


def drawn(results: Sequence[Result]) -> list[Chart]:
    found = gather(by_system(results), made_results.metrics)
    return [chart for chart in charts.charts(found) if chart.kind == "timeline"]


def timed(result: Result, **times: float | None) -> Result:
    return replace(result, run=replace(result.run, **times))  # type: ignore[arg-type]


def bars(chart: Chart) -> Mapping[str, Mapping[str, object]]:
    return {row["run"]: row for row in chart.spec["datasets"]["bars"]}


def test_a_timeline_has_each_run_on_its_system_and_tells_how_often_they_took_turns() -> None:
    _, results = quickstart(benchmarks=("resnet50",), blocks=3)
    lanes, _ = drawn(results)
    assert len(bars(lanes)) == len(results) == 12
    assert {row["side"] for row in bars(lanes).values()} == {"here", "here-again"}
    assert "the systems alternated 11 times" in lanes.words
    back_to_back = [
        timed(r, started_at=1e9 + 10 * at, ended_at=1e9 + 10 * at + 9)
        for at, r in enumerate(sorted(results, key=lambda r: r.run.trial.system))
    ]
    assert "the systems alternated 1 time" in drawn(back_to_back)[0].words


def test_failed_runs_and_runs_done_again_are_marked_with_the_reason() -> None:
    _, results = quickstart(benchmarks=("resnet50",))
    results[1] = failed(results[1], "rank 0 was killed")
    results[2] = replace(results[2], run=replace(results[2].run, attempt=2))
    lanes, _ = drawn(results)
    marks = {row["run"]: (row["ended"], row["why"]) for row in lanes.spec["datasets"]["marks"]}
    assert marks == {
        results[1].run.trial.id: ("failed", "rank 0 was killed"),
        results[2].run.trial.id: ("done again", "attempt 2"),
    }
    assert "a cross is a failed run" in lanes.caption
    assert "1 failed" in lanes.words


def test_runs_are_held_against_their_own_system_so_that_only_drift_makes_a_slope() -> None:
    _, results = quickstart(benchmarks=("digits",), ratios={"here-again": 0.5}, blocks=10)
    _, drift = drawn(results)
    for side in ("here", "here-again"):
        shares = [row["value"] for row in drift.spec["datasets"]["rows"] if row["side"] == side]
        assert math.prod(shares) == pytest.approx(1, rel=1e-3)


def test_a_session_that_gets_slower_is_seen_in_the_words_too() -> None:
    _, results = quickstart(benchmarks=("resnet50",), blocks=8)
    slower = [
        replace(
            r,
            reading=replace(
                r.reading,
                measurements=tuple(
                    replace(m, value=m.value * (0.8 if r.run.trial.block > 4 else 1.0))
                    for m in r.reading.measurements
                ),
            ),
        )
        for r in results
    ]
    _, drift = drawn(slower)
    told = re.search(r"first half of the runs is at ([\d.]+) .* second at ([\d.]+)\.$", drift.words)
    assert told is not None
    assert float(told[2]) / float(told[1]) == pytest.approx(0.8, abs=0.03)


def test_runs_that_have_no_place_in_time_are_left_out() -> None:
    _, results = quickstart(benchmarks=("resnet50",))
    assert drawn([timed(r, started_at=None, ended_at=None) for r in results]) == []


@pytest.mark.parametrize("half", [0.003, 0.02, 0.1, 0.5, 3.0, 900.0])
def test_an_axis_of_ratios_has_one_in_its_middle_and_a_few_round_ticks(half: float) -> None:
    domain, ticks = ratio_ticks(1.0, 1 + half)
    assert domain[0] * domain[1] == pytest.approx(1)
    assert 3 <= len(ticks) <= 9
    assert 1 in ticks
    assert all(domain[0] <= tick <= domain[1] for tick in ticks)


def test_one_sample_of_a_short_run_is_not_drawn_as_an_empty_panel() -> None:
    def panels(*points: tuple[float, float]) -> list[str]:
        lines = (TelemetryLine("job", points), TelemetryLine("page cache", points[:1]))
        profile = TelemetryProfile(0.0, 1.0, 1.0, (TelemetryPanel("memory", "B", lines),))
        time = RunTime("here", "s/1/t", "t", 0.0, 1.0, RunTimeline((), {}), profile, (), drawn=True)
        return [chart.words for chart in run_panels(time)]

    assert panels((0.0, 1e9)) == []
    [words] = panels((0.0, 1e9), (1.0, 2e9))
    assert ("job" in words, "page cache" in words) == (True, False)

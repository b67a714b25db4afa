"""Exchanges by message size as words, tables and charts: alone, and B against A."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from test_exchange_curves import EDR, SIZES, bent, metrics, run, straight

from assay.analyse.comparison.families import curve_verdicts
from assay.records import Comparison, Result
from assay.view import report, terminal, verdicts
from assay.view.blocks import Chart
from assay.view.charts import charts
from assay.view.contents import Contents, gather
from assay.view.sentences import exchange as exchange_words

BLOCKS = (1, 2, 3, 4, 5)


def of(system: str, block: int, time_s: Any = straight) -> Result:
    made = run(block, time_s, nodes=[EDR, EDR], phase=len(system))
    trial = replace(made.run.trial, system=system)
    return replace(made, run=replace(made.run, id=f"{made.run.id}-{system}", trial=trial))


def slow_from_1_mib(size: int) -> float:
    return straight(size) * (1.25 if size >= 2**20 else 1.0)


@pytest.fixture(scope="module")
def contents() -> Contents:
    """`there` is slower from 1 MiB on, which no line fits."""
    here = [of("here", block) for block in BLOCKS]
    there = [of("there", block, slow_from_1_mib) for block in BLOCKS]
    return gather({"here": here, "there": there}, metrics, margin=0.1)


def drawn(contents: Contents, kind: str) -> list[Chart]:
    return [chart for chart in charts(contents) if chart.kind == kind]


def rows(chart: Chart, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["datasets"][name]
    return found


def test_words_say_latency_bandwidth_half_of_it_and_the_share_of_the_network(contents: Contents) -> None:
    here, there = contents.exchanges
    assert exchange_words.heading(here) == "here · train, 2 workers × 2"
    words = exchange_words.describe_curve(here)
    assert words.startswith("latency 20.")
    assert "asymptotic bus bandwidth 15" in words
    assert "half of it reached at 19" in words
    assert "of the line rate of 1 × EDR InfiniBand (12.5 GB/s)" in words
    assert exchange_words.describe_curve(there).startswith("α + n·β: no line fits all sizes, ")
    assert "half of that reached at" in exchange_words.describe_curve(there)


def test_the_charts_hold_what_was_measured_the_line_its_half_and_the_line_rate(contents: Contents) -> None:
    busbw, latency = drawn(contents, "exchange")
    for chart in (busbw, latency):
        assert len(rows(chart, "measured")) == 2 * len(SIZES)
        assert {row["side"] for row in rows(chart, "drawn")} == {"here"}, "a line that doesn't fit is none"
        assert {row["side"] for row in rows(chart, "joined")} == {"there"}
        assert [row["side"] for row in rows(chart, "halves")] == ["here", "there"]
    assert rows(busbw, "halves")[0]["value"] == pytest.approx(7.5, rel=0.03), "GB/s, half of 15"
    assert rows(latency, "halves")[0]["value"] == pytest.approx(40, rel=0.05), "µs, twice the latency"
    assert rows(busbw, "rates") == [{"value": 12.5, "words": "line rate of 1 × EDR InfiniBand"}]
    assert rows(latency, "rates") == []
    assert rows(latency, "drawn")[0]["low"] < rows(latency, "drawn")[0]["value"]


def test_the_ratio_over_size_stands_in_its_band_and_not_in_the_forest(contents: Contents) -> None:
    (chart,) = drawn(contents, "ratios")
    verdicts = {row["x"]: row["verdict"] for row in rows(chart, "rows")}
    assert {size for size, verdict in verdicts.items() if verdict == "slower"} == set(SIZES[17:])
    assert drawn(contents, "forest") == []
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows(chart, "rows"))


def test_page_and_markdown_have_the_table(contents: Contents) -> None:
    for text in (report.html_page(contents), report.markdown_text(contents)):
        assert "Exchanges by message size" in text
        assert "no line fits all sizes" in text


def slower(contents: Contents) -> tuple[Comparison, ...]:
    return tuple(c for c in contents.comparisons if c.point.metric == "busbw")


def test_a_curve_is_one_line_that_says_where_it_is_slower(contents: Contents) -> None:
    [found] = curve_verdicts(slower(contents))
    assert found.verdict == "slower"
    line = exchange_words.verdict_line(found)
    assert line.startswith(
        "▼ train busbw, 2 workers × 2: slower at 7 of 24 sizes, 1 MiB to 64 MiB (ratio 0.7"
    )
    assert "; as fast at 17 of 24 sizes, 8 B to 512 KiB (ratio " in line


def test_the_terminal_folds_curves_unless_all_is_asked_for(contents: Contents) -> None:
    def told(**how: bool) -> str:
        console = Console(file=io.StringIO(), width=200)
        console.print(terminal.shown(verdicts.verdicts(slower(contents), **how)))
        found: str = console.file.getvalue()  # type: ignore[attr-defined]
        return found

    assert told(folded=True).count("payload") == 0
    assert "slower at 7 of 24 sizes" in told(folded=True)
    assert told().count("payload") >= len(SIZES)


def test_programs_get_each_sizes_interval_of_the_band(contents: Contents) -> None:
    [found] = exchange_words.plain(slower(contents))
    assert (found["verdict"], found["metric"], len(found["sizes"])) == ("slower", "busbw", len(SIZES))
    assert all(size["high"] < 1 for size in found["sizes"] if size["verdict"] == "slower")
    assert 1 <= found["independent_sizes"] <= len(SIZES)


def test_sizes_that_stand_apart_are_told_apart() -> None:
    def dip(size: int) -> float:
        return straight(size) * (1.4 if size in (2**10, 2**20) else 1.0)

    there = [of("there", block, dip) for block in BLOCKS]
    found = gather({"here": [of("here", block) for block in BLOCKS], "there": there}, metrics, margin=0.1)
    [curve] = curve_verdicts(slower(found))
    assert "slower at 2 of 24 sizes, 1 KiB, 1 MiB (ratio 0.713)" in exchange_words.verdict_line(curve)


def test_one_run_a_side_has_no_band_and_keeps_its_rows() -> None:
    found = gather({"here": [of("here", 1)], "there": [of("there", 1, bent)]}, metrics)
    assert curve_verdicts(found.comparisons) == ()
    assert len(drawn(found, "exchange")) == 2

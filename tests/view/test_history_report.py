"""A history's page and its words: the worst step first, how sure it is, and what else changed there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import made_results
import nightly_runs
import swept_runs
from assay import cli
from assay.analyse.history import SessionValue, histories
from assay.analyse.statistics.level_shifts import LevelShift
from assay.node_sweep import NODES
from assay.questions import history as question
from assay.questions.history import Histories
from assay.questions.history import history as node_histories
from assay.questions.report import report
from assay.records import Estimate, Result
from assay.view.charts.history import history as chart
from assay.view.sentences import history
from assay.view.sentences.history import AnnotatedHistory, FactChange, annotate
from made_results import nightly

FALL = [1.0] * 7 + [0.9] * 6
RISE = [1.0] * 7 + [1.1] * 6


def made(results: Sequence[Result], changes: Sequence[FactChange] = ()) -> list[AnnotatedHistory]:
    def changed(_old: SessionValue, _new: SessionValue) -> Sequence[FactChange]:
        return changes

    return [
        annotate(one, changed, {}) for one in histories(results, "throughput", metrics=made_results.metrics)
    ]


def step(value: float, low: float | None, high: float | None) -> LevelShift:
    return LevelShift(3, 4, 4, 4, Estimate(value, low, high, 8, ""), None)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((0.892, 0.890, 0.894), "−10.8 % (−11.0 to −10.6 %)"),
        ((1.117, 1.02, 1.22), "+12 % (+2 to +22 %)"),
        ((1.0003, 1.0001, 1.0005), "+0.03 % (+0.01 to +0.05 %)"),
        ((1.5, None, None), "+50.0 %"),
    ],
)
def test_a_step_is_told_to_the_digit_that_its_interval_carries(
    ratio: tuple[float, float | None, float | None], words: str
) -> None:
    assert history.size(step(*ratio)) == words


def test_the_first_sentence_names_the_worst_step_though_a_better_one_is_larger() -> None:
    both = made([*nightly(FALL), *nightly([1.0] * 7 + [1.4] * 6, system="there")])
    assert re.fullmatch(
        r"On here resnet50 throughput on 1 worker changed by −\d.* %\), worse, at session "
        r"night-07 of 2026-03-08 \d\d:\d\d UTC\. 1 more step among 2 histories\.",
        history.lead(both),
    )


def test_no_step_and_too_few_sessions_are_told_apart() -> None:
    assert history.lead(made(nightly([1.0] * 8))) == "No step of throughput in 1 history."
    assert history.lead(made(nightly([1.0] * 3))) == (
        "Steps of throughput can't be detected: 3 sessions; steps can be detected from 6 on."
    )


def test_of_many_histories_those_are_counted_that_show_a_step_falsely() -> None:
    few = made(nightly([1.0] * 8))
    assert history.false_alarms(few) == ""
    assert history.false_alarms(few * 40).endswith(
        "expect at most about 2.6 of these 40 histories to show one"
    )


def test_the_chart_holds_every_session_level_and_step_and_says_them_in_words() -> None:
    [one] = made(nightly(FALL))
    drawn = chart(one.history)
    data = drawn.spec["datasets"]
    assert len(data["sessions"]) == 13
    assert [(level["x"], level["until"]) for level in data["levels"]] == [(-0.5, 6.5), (6.5, 12.5)]
    [row] = data["steps"]
    assert row["way"] == "worse"
    assert row["low"] < data["levels"][1]["value"] < row["high"]
    assert history.size(one.history.steps[0]) in drawn.words


def test_a_drift_is_named_and_drawn_as_a_drift() -> None:
    [one] = made(nightly([1.0] * 8 + [1 - 0.004 * at for at in range(1, 31)]))
    assert history.describe_sessions(one.history) == "38 sessions, 1 drift"
    assert re.search(
        r"drifted by −12 % .*worse, from session night-\d\d to session night-3\d", history.lead([one])
    )
    flat, slope, _ = chart(one.history).spec["datasets"]["levels"]
    assert flat["value"] == flat["end"] == slope["value"] > 1.08 * slope["end"]
    assert "drifted by −" in str(Histories("throughput", (one,)))


def test_without_a_step_the_chart_is_sessions_and_their_level() -> None:
    [one] = made(nightly([1.0] * 8))
    data = chart(one.history).spec["datasets"]
    assert "steps" not in data
    assert len(data["levels"]) == 1


def test_a_page_holds_what_changed_and_takes_no_value_for_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly_runs.write(tmp_path / "runs")
    change = FactChange("env.NCCL_DEBUG", "WARN", "</script>INFO")
    monkeypatch.setattr(question, "_changes", lambda *_: [change])
    page = tmp_path / "page.html"
    words = ["history", "flop_rate", "--runs", str(tmp_path / "runs"), "--report", str(page)]
    assert CliRunner().invoke(cli.assay, words).exit_code == 0
    body = page.read_text().partition("<main>")[2]
    assert "env.NCCL_DEBUG WARN → &lt;/script&gt;INFO" in body
    assert "assay history flop_rate</code>" in body


def test_the_charts_are_those_of_the_worst_histories_and_all_are_in_the_text() -> None:
    many = made(nightly([1.0] * 8)) * (question.MOST_CHARTS + 3)
    answer = Histories("throughput", tuple(many))
    assert len(answer.charts) == question.MOST_CHARTS
    assert answer._repr_html_().count('<th scope="row">resnet50 throughput on 1 worker</th>') == len(many)


def test_a_step_names_its_session_with_the_time_only_if_the_name_does_not_have_the_day() -> None:
    by_night = nightly(FALL)
    by_day = [
        replace(r, run=replace(r.run, session=f"2026-03-{1 + int(r.run.session[-2:]):02}T101500Z"))
        for r in by_night
    ]
    for results, said in ((by_night, "at session night-07 of 2026-03-08 10:15 UTC"), (by_day, "T101500Z")):
        [one] = made(results)
        assert history.locate_step(one.history, one.history.steps[0]).endswith(said)


def test_the_history_of_a_node_says_what_the_page_of_the_sweep_says_of_it(tmp_path: Path) -> None:
    swept_runs.write(tmp_path)
    answer = report(f"{NODES}/{swept_runs.NEWEST}", runs=tmp_path).plain()["answers"]
    every = {one.history.system: one for one in node_histories("rate", suite=NODES, runs=tmp_path)}
    slow = every.pop(swept_runs.SLOW)
    assert [f"{swept_runs.SLOW}: {words}" for words in slow.slow_in.values()] == [answer[0]["sentence"]]
    assert [*slow.slow_in] == [swept_runs.NEWEST]
    assert not any(one.slow_in for one in every.values())
    lead = history.lead([slow])
    assert lead.endswith(f"{swept_runs.SLOW} is slow in 1 sweep, such as {swept_runs.NEWEST}.")
    words = ["history", "rate", "--system", swept_runs.SLOW, "--runs", str(tmp_path)]
    shown = CliRunner().invoke(cli.assay, words)
    assert f"the sweep {swept_runs.NEWEST} says of this node: slow alone (matmul at 0.7" in shown.output


def test_a_damaged_sweep_takes_neither_its_history_nor_the_verdicts_of_others_away(tmp_path: Path) -> None:
    swept_runs.write(tmp_path)
    assert node_histories("rate", runs=tmp_path)  # indexed before the damage
    (tmp_path / NODES / "2026-04-02T100000Z" / "plan.json").write_text("{")
    (slow,) = node_histories("rate", system=swept_runs.SLOW, runs=tmp_path)
    assert [*slow.slow_in] == [swept_runs.NEWEST]
    (damaged,) = (line for line in history.swept(slow) if "can't be judged" in line)
    assert damaged.startswith("the sweep 2026-04-02T100000Z can't be judged: ")
    assert "plan.json:1: not JSON" in damaged


def test_a_damaged_plan_at_a_step_is_said_and_the_step_stays(tmp_path: Path) -> None:
    nightly_runs.write(tmp_path)
    (one,) = node_histories("flop_rate", suite="nightly", runs=tmp_path)
    _, new = history.around(one.history, one.history.steps[0])
    (tmp_path / "nightly" / new.session / "plan.json").write_text("{")
    (again,) = node_histories("flop_rate", suite="nightly", runs=tmp_path)
    assert again.history.steps == one.history.steps
    (change,) = (change for change in again.changes[0] if change.name == "programs")
    assert "plan.json" in change.new

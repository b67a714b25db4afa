"""Sessions as what is replicated: a claim about the system has to survive another day."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.analyse.judgement import compare_with_doubts
from assay.analyse.statistics import intervals
from assay.records import Comparison, Estimate, Result
from assay.view.sentences import sentences
from assay.view.sentences.recommendation import advised
from conftest import tries
from stated_runs import metrics, side


def _verdict(a: list[Result], b: list[Result], margin: float = 0.02) -> Comparison:
    [found] = compare_with_doubts(a, b, margin=margin, names=("A", "B"), metrics=metrics()).comparisons
    return found


def _sessions(
    logs: list[list[float]], system: str, first: int = 0, *, interleaved: bool = True
) -> list[Result]:
    """One session for each row of logarithms."""
    return [
        result
        for day, row in enumerate(logs, start=first)
        for result in side(
            [100 * math.exp(x) for x in row], system=system, session=f"day-{day}", interleaved=interleaved
        )
    ]


def test_with_several_sessions_a_side_each_session_counts_once_whatever_its_runs() -> None:
    a = [[0.00, 0.02], [0.01, 0.01, 0.04], [0.03, 0.03]]
    b = [[0.05, 0.05], [0.02, 0.04], [0.06, 0.02, 0.04]]
    found = _verdict(_sessions(a, "a"), _sessions(b, "b", first=3))
    expected = intervals.welch([np.mean(row) for row in a], [np.mean(row) for row in b])
    assert (found.replication, found.sessions, found.n) == ("sessions", (3, 3), (7, 7))
    assert found.method == "welch"
    assert math.log(found.ratio.value) == pytest.approx(expected.centre)
    assert found.error == pytest.approx(expected.error)
    assert found.mean_b / found.mean_a == pytest.approx(found.ratio.value)


def test_interleaved_sessions_are_paired_by_block_and_then_counted_once_each() -> None:
    a = [[0.00, 0.02, 0.01], [0.31, 0.30, 0.32], [-0.2, -0.2, -0.2]]
    differences = [[0.01, 0.02, 0.03], [0.00, 0.01, -0.01], [0.02, 0.00, 0.04]]
    b = [[x + d for x, d in zip(*rows, strict=True)] for rows in zip(a, differences, strict=True)]
    found = _verdict(_sessions(a, "a"), _sessions(b, "b"))
    expected = intervals.paired([(0.0, float(np.mean(row))) for row in differences])
    assert (found.method, found.replication, found.degrees) == ("paired", "sessions", 2)
    assert (found.ratio.value, found.error) == pytest.approx((math.exp(expected.centre), expected.error))


def test_sides_that_were_measured_in_the_same_sessions_are_paired_by_session() -> None:
    days, b = [0.0, 0.3, -0.2, 0.1], [0.01, 0.02, 0.00, 0.03]
    first = _sessions([[day, day] for day in days], "a", interleaved=False)
    second = _sessions([[day + d, day + d] for day, d in zip(days, b, strict=True)], "b", interleaved=False)
    found = _verdict(first, list(reversed(second)))
    assert (found.method, found.replication, found.degrees) == ("paired", "sessions", 3)
    assert found.error == pytest.approx(intervals.paired([(0.0, d) for d in b]).error)
    assert "not-interleaved" in {doubt.code for doubt in found.doubts}  # within a session one came first
    assert _verdict(first[:-2], second).method == "welch"  # a session in which only B was measured


def test_with_one_session_on_each_side_runs_are_what_is_replicated_and_the_headline_says_so() -> None:
    row = [0.00, 0.002, 0.001]
    found = _verdict(_sessions([row], "a"), _sessions([[x + 0.05 for x in row]], "b", first=5))
    assert (found.replication, found.sessions, found.apart) == ("runs", (1, 1), True)
    asked = sentences.questions([found])
    assert sentences.headline(asked).startswith(
        "B compared with A: in these two sessions, faster in the only comparison."
    )
    assert sentences.answer(asked[0]).startswith("In these two sessions, B is faster than A at train")
    assert advised([found]).sentence.startswith("In these two sessions, B is faster than A in the only ")
    together = _verdict(_sessions([row], "a"), _sessions([[x + 0.05 for x in row]], "b"))
    assert not together.apart
    assert "these two sessions" not in sentences.headline(sentences.questions([together]))


def test_one_session_is_taken_to_differ_from_its_others_as_the_sessions_of_the_other_side_do() -> None:
    b = [[0.05, 0.05], [0.02, 0.04], [0.06, 0.02], [0.03, 0.03]]
    found = _verdict(_sessions([[0.00, 0.02]], "a"), _sessions(b, "b", first=3))
    means = np.mean(b, axis=1)
    assert (found.replication, found.sessions, found.degrees) == ("sessions", (1, 4), 3)
    assert found.error == pytest.approx(np.std(means, ddof=1) * math.sqrt(1 + 1 / 4))
    assert math.log(found.ratio.value) == pytest.approx(np.mean(means) - 0.01)
    [doubt] = [doubt for doubt in found.doubts if doubt.code == "one-session"]
    assert "it is taken to differ from its others as the 4 sessions of B do from each other" in doubt.evidence
    assert "pooled-sessions" not in {doubt.code for doubt in found.doubts}


def test_a_single_run_of_a_session_is_not_taken_to_be_as_steady_as_the_means_of_many() -> None:
    b = [[0.05, 0.01], [0.02, 0.06], [0.06, 0.02], [0.01, 0.05]]
    found = _verdict(_sessions([[0.00]], "a"), _sessions(b, "b", first=3))
    within = np.var(b, axis=1, ddof=1).mean()
    between = np.mean(b, axis=1).var(ddof=1)
    assert found.error == pytest.approx(math.sqrt(between * (1 + 1 / 4) + within / 2))


def test_a_new_session_of_both_is_predicted_where_sessions_are_replicated() -> None:
    days, b = [0.0, 0.3, -0.2, 0.1], [0.01, 0.02, 0.00, 0.03]
    first = _sessions([[day, day + 0.001] for day in days], "a")
    second = _sessions([[day + d, day + d + 0.001] for day, d in zip(days, b, strict=True)], "b")
    found = _verdict(first, second)
    assert found.new_session is not None
    half = math.log(found.new_session.high / found.new_session.low) / 2  # type: ignore[operator]
    assert half == pytest.approx(3.182 * np.std(b, ddof=1) * math.sqrt(1 + 1 / 4), rel=1e-3)
    said = sentences.new_session([found])
    assert said.startswith(
        "In 95 of 100 cases, one more session of both sides has B/A between 0.970 and 1.063."
    )
    assert said in sentences.evidence(sentences.questions([found])[0])
    assert _verdict(first[:2], second[:2]).new_session is None


@pytest.mark.parametrize(("few", "many"), [(1, 5), (1, 3), (2, 5), (4, 4)])
def test_other_sessions_are_covered_and_new_ones_predicted_in_95_of_100(few: int, many: int) -> None:
    """Sessions spread by 0.5 %, their runs by 0.05 %: 1 against 5 covered the systems in 63 %."""
    rng, sets, covered, predicted = np.random.default_rng(few * many), tries(900), 0, 0
    for _ in range(sets):
        rows = rng.normal(0, 0.0005, (few + many, 3)) + rng.normal(0, 0.005, (few + many, 1))
        found = _verdict(_sessions(rows[:few].tolist(), "a"), _sessions(rows[few:].tolist(), "b", first=few))
        covered += _contains(found.ratio, 0.0)
        predicted += _contains(found.new_session, rng.normal(0, 0.005 * math.sqrt(2)))
    bound = 0.94 - 3 * math.sqrt(0.94 * 0.06 / sets)
    assert covered / sets >= bound
    assert predicted / sets >= bound


def _contains(interval: Estimate | None, log: float) -> bool:
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= math.exp(log) <= interval.high


def test_what_would_decide_is_counted_in_sessions_where_they_are_replicated() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 0.0005, (6, 4)) + rng.normal(0, 0.02, (6, 1))
    found = _verdict(_sessions(rows[:3].tolist(), "a"), _sessions(rows[3:].tolist(), "b", first=3))
    assert found.verdict == "undecided"
    assert found.runs_needed is not None
    assert found.runs_needed.of == "sessions"


@pytest.mark.long
def test_luck_of_sessions_fools_runs_and_not_sessions() -> None:
    """Sessions spread by 0.5 % and runs within one by 0.05 %; no difference between the systems."""
    rng, sets, fooled_runs, fooled_sessions = np.random.default_rng(2), tries(300), 0, 0
    for _ in range(sets):
        rows = rng.normal(0, 0.0005, (8, 4)) + rng.normal(0, 0.005, (8, 1))
        a, b = rows[:4].tolist(), rows[4:].tolist()
        one = _verdict(_sessions(a[:1], "a"), _sessions(b[:1], "b", first=4), margin=1e-6)
        several = _verdict(_sessions(a, "a"), _sessions(b, "b", first=4), margin=1e-6)
        fooled_runs += one.verdict in ("faster", "slower")
        fooled_sessions += several.verdict in ("faster", "slower")
    assert fooled_runs / sets > 0.7
    assert 0 < fooled_sessions / sets <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / sets)

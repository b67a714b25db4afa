"""Sessions as what is replicated: a claim about the system has to survive another day."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.analyse.comparison.compare import compare
from assay.analyse.statistics import intervals
from assay.records import Comparison, Result
from conftest import tries
from stated_runs import metrics, side


def _verdict(a: list[Result], b: list[Result], margin: float = 0.02) -> Comparison:
    [found] = compare(a, b, margin=margin, names=("A", "B"), metrics=metrics())
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


@pytest.mark.parametrize(("days_a", "days_b"), [(1, 1), (1, 3), (2, 1)])
def test_with_one_session_on_a_side_runs_are_what_is_replicated(days_a: int, days_b: int) -> None:
    row = [0.00, 0.02, 0.01]
    found = _verdict(_sessions([row] * days_a, "a"), _sessions([row] * days_b, "b", first=5))
    assert (found.replication, found.sessions) == ("runs", (days_a, days_b))


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

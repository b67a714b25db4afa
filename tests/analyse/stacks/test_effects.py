"""Effects of a change of the stack: their intervals hold what they promise, also if sessions differ."""

from __future__ import annotations

import random

import pytest

from assay.analyse.stacks.effects import NEVER_TOGETHER, compare_stacks, level
from assay.records import Doubt, HardwareClass, Observation, Stack, StackMetric, StackWorkload

WORKLOAD = StackWorkload("matmul", "1x1", {})
METRIC = StackMetric("flop_rate", "FLOP/s", "higher")


def observed(
    name: str, session: int, values: list[float], *, interleaved: bool = True, lost: float = 0.0
) -> Observation:
    doubts = (Doubt("busy-neighbours", "others", "wait"),) if lost else ()
    return Observation(
        Stack({}, {"torch": name}), HardwareClass("CPU"), WORKLOAD, METRIC, f"s/{session}", float(session),
        primary=True, values=tuple(enumerate(values, 1)), interleaved=interleaved, lost_to_others=lost,
        doubts=doubts,
    )  # fmt: skip


def sessions(
    dice: random.Random, count: int, *, effect: float = 0.0, day: float, own: float, together: bool = True
) -> tuple[list[Observation], list[Observation]]:
    """Two stacks in sessions that shift both by `day` and each by `own`, as standard deviations."""
    sides: tuple[list[Observation], list[Observation]] = ([], [])
    for number in range(count):
        shift = dice.gauss(0, day)
        for side, (name, faster) in enumerate((("a", 0.0), ("b", effect))):
            at = number if together else number * 2 + side
            base = (shift if together else dice.gauss(0, day)) + dice.gauss(0, own) + faster
            values = [2.718281828 ** (base + dice.gauss(0, 0.003)) for _ in range(4)]
            sides[side].append(observed(name, at, values))
    return sides


def false_claims(count: int, *, together: bool, day: float, own: float, tries: int = 600) -> float:
    """Share of cases without any effect in which one is claimed."""
    dice = random.Random(7)
    claimed = 0
    for _ in range(tries):
        a, b = sessions(dice, count, day=day, own=own, together=together)
        found = compare_stacks(a, b, ("a", "b"), 0.001)
        claimed += found is not None and found.verdict in ("faster", "slower")
    return claimed / tries


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("together", [True, False])
def test_without_an_effect_few_claim_one_however_much_sessions_differ(count: int, together: bool) -> None:
    assert false_claims(count, together=together, day=0.03, own=0.005) <= 0.075  # 5 % ± 3 standard errors


def test_runs_as_the_unit_would_claim_effects_that_are_not_there() -> None:
    """Why sessions are the unit: the runs of one session agree far better than sessions do."""
    assert false_claims(1, together=True, day=0.03, own=0.005) > 0.2  # the doubt one-session says so


def test_an_effect_is_found_and_its_interval_holds_it_in_95_of_100_cases() -> None:
    dice = random.Random(3)
    inside = 0
    for _ in range(400):
        a, b = sessions(dice, 4, effect=0.04, day=0.03, own=0.004)
        found = compare_stacks(a, b, ("a", "b"), 0.02)
        assert found is not None
        low, high = found.ratio.low, found.ratio.high
        assert low is not None
        assert high is not None
        inside += low <= 2.718281828**0.04 <= high
    assert 0.92 <= inside / 400 <= 0.98


def test_one_session_is_compared_by_blocks_and_doubted() -> None:
    a, b = observed("a", 1, [1.0, 2.0, 4.0]), observed("b", 1, [1.1, 2.2, 4.41])
    found = compare_stacks([a], [b], ("a", "b"), 0.02)
    assert found is not None
    assert (found.method, found.replication, found.verdict) == ("paired", "runs", "faster")
    assert "one-session" in {doubt.code for doubt in found.doubts}


def test_without_blocks_in_common_runs_are_not_paired() -> None:
    a = observed("a", 1, [1.0, 1.01, 1.02], interleaved=False)
    b = observed("b", 1, [1.1, 1.11, 1.12], interleaved=False)
    found = compare_stacks([a], [b], ("a", "b"), 0.02)
    assert found is not None
    assert found.method == "welch"
    assert "not-interleaved" in {doubt.code for doubt in found.doubts}


def test_one_session_each_gives_a_ratio_without_an_interval() -> None:
    found = compare_stacks([observed("a", 1, [1.0, 1.0])], [observed("b", 2, [2.0, 2.0])], ("a", "b"), 0.02)
    assert found is not None
    assert (found.ratio.value, found.ratio.low, found.verdict) == (pytest.approx(2.0), None, "undecided")
    assert NEVER_TOGETHER in found.reason


def test_time_lost_to_others_stretches_the_interval_as_it_does_for_systems() -> None:
    pairs = [([100.0 + d, 101.0, 99.0], [104.0, 105.1, 103.0]) for d in (0.0, 0.5, 1.0)]
    a = [observed("a", at, x, lost=0.1) for at, (x, _) in enumerate(pairs)]
    b = [observed("b", at, y, lost=0.0) for at, (_, y) in enumerate(pairs)]
    found = compare_stacks(a, b, ("a", "b"), 0.02)
    assert found is not None
    assert found.verdict == "undecided"
    assert "may have waited" in found.reason


def test_a_value_that_is_not_above_zero_has_no_ratio_and_a_level_without_an_interval() -> None:
    zero = observed("a", 1, [0.0, 1.0])
    assert compare_stacks([zero], [observed("b", 1, [1.0, 1.0])], ("a", "b"), 0.02) is None
    assert level([zero]).estimate.low is None


def test_sessions_of_two_parties_with_one_name_are_two_sessions() -> None:
    from dataclasses import replace

    ours = observed("a", 1, [1.0, 1.1])
    theirs = replace(ours, origin="key")
    assert level([ours, theirs]).sessions == 2

"""A slow rank is named in most jobs, and hardly ever one of a healthy job, however often one looks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.monitor.stragglers import SILENT_S, stop, stragglers
from conftest import long_rows_but

RUNS = 200


def job(
    rng: np.random.Generator,
    ranks: int,
    steps: int,
    *,
    noise: float = 0.1,
    tail: float = 0.0,
    memory: float = 0.0,
    slow: float = 1.0,
) -> np.ndarray:
    """Seconds by rank and step: noise of each rank, like its neighbors' by `memory`, and of all together."""
    own = rng.standard_t(tail, (ranks, steps)) if tail else rng.normal(size=(ranks, steps))
    for step in range(1, steps):
        own[:, step] = memory * own[:, step - 1] + math.sqrt(1 - memory**2) * own[:, step]
    together = rng.normal(0, 0.2, steps)
    seconds = 0.1 * np.exp(noise * own + together)
    seconds[0] *= slow
    return seconds


def named(seconds: np.ndarray, at: int) -> list[int]:
    """Ranks that are named when so many steps were taken."""
    times = {
        rank: {step + 1: float(own[step]) for step in range(max(0, at - 300), at)}
        for rank, own in enumerate(seconds)
    }
    return [one.rank for one in stragglers(times)]


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (2, {}),
        pytest.param(8, {"noise": 0.3}, marks=pytest.mark.long),
        pytest.param(8, {"tail": 3.0}, marks=pytest.mark.long),
        pytest.param(8, {"memory": 0.8}, marks=pytest.mark.long),
        pytest.param(64, {"tail": 3.0, "memory": 0.6}, marks=pytest.mark.long),
        pytest.param(512, {}, marks=pytest.mark.long),
    ],
)
def test_a_healthy_job_has_a_rank_named_in_at_most_5_of_100_over_all_looks(
    ranks: int, options: dict[str, float]
) -> None:
    rng = np.random.default_rng(16)
    wrong = 0
    for _ in range(RUNS):
        seconds = job(rng, ranks, 512, **options)
        wrong += any(named(seconds, at) for at in range(64, 513, 64))
    assert wrong <= 0.05 * RUNS + 2 * math.sqrt(0.05 * 0.95 * RUNS)


@pytest.mark.parametrize(
    ("ranks", "slow", "at"), long_rows_but(1, [(8, 1.3, 64), (2, 1.5, 64), (64, 1.3, 128), (8, 1.15, 512)])
)
def test_a_slow_rank_is_named_in_at_least_9_of_10_jobs(ranks: int, slow: float, at: int) -> None:
    rng = np.random.default_rng(17)
    found = [named(job(rng, ranks, at, slow=slow, memory=0.3), at) for _ in range(100)]
    right = sum(one[:1] == [0] for one in found)
    assert right >= 90
    assert sum(len(one) > 1 for one in found) <= 5


def test_its_ratio_is_in_its_interval_and_near_the_truth() -> None:
    seconds = job(np.random.default_rng(18), 8, 256, slow=1.4)
    times = {rank: dict(enumerate(map(float, own), 1)) for rank, own in enumerate(seconds)}
    (found,) = stragglers(times)
    assert found.low <= 1.4 <= found.high
    assert found.ratio == pytest.approx(1.4, rel=0.05)
    assert found.steps == 256


def test_too_little_to_tell_names_nobody() -> None:
    assert stragglers({}) == []
    assert stragglers({0: dict.fromkeys(range(1, 100), 1.0)}) == []
    assert stragglers({0: {1: 1.0}, 1: {1: 9.0}}) == []
    assert stragglers({0: dict.fromkeys(range(1, 90), 1.0), 1: {}}) == []
    assert stragglers({0: dict.fromkeys(range(1, 90), 1.0), 1: dict.fromkeys(range(1, 90), 0.0)}) == []


def test_ranks_that_wait_for_each_other_take_the_same_time_and_nobody_is_named() -> None:
    rng = np.random.default_rng(19)
    together = np.maximum.reduce(job(rng, 8, 256, slow=2.0))
    times = {rank: dict(enumerate(map(float, together), 1)) for rank in range(8)}
    assert stragglers(times) == []


def taken(seconds: np.ndarray) -> dict[int, list[tuple[int, float]]]:
    return {
        rank: [(step + 1, float(at)) for step, at in enumerate(np.cumsum(own))]
        for rank, own in enumerate(seconds)
    }


def test_a_job_that_stands_still_is_named_with_the_ranks_that_are_behind() -> None:
    at = taken(np.full((4, 100), 1.0))
    at[2] = at[2][:-1]
    assert stop(at, 100 + SILENT_S) is None
    found = stop(at, 100.1 + SILENT_S)
    assert found is not None
    assert (found.behind, found.step) == ((2,), 100)
    at[1][50:] = [(step, when + 30) for step, when in at[1][50:]]
    assert stop(at, 130 + 240) is None  # a pause of 31 s was seen
    assert stop(at, 130 + 250) is not None
    assert stop({0: [(1, 0.0)], 1: []}, 1e9) is None


def test_a_healthy_job_with_long_tails_is_said_to_have_stopped_in_few_of_100() -> None:
    """Steps of 5 s, and pauses by a Pareto law: looked at just before each next step."""
    rng = np.random.default_rng(20)
    wrong = 0
    for _ in range(RUNS):
        pauses = 5.0 * (1 + rng.pareto(2.5, 1000))
        moments = np.cumsum(pauses)
        longest = np.maximum.accumulate(pauses)
        limits = np.maximum(SILENT_S, 8 * longest)
        wrong += bool((pauses[17:] > limits[16:-1]).any())
        at = {0: [(step + 1, float(when)) for step, when in enumerate(moments[:500])]}
        expected = pauses[500] > max(SILENT_S, 8 * float(np.diff(moments[:500]).max()))
        assert (stop(at, float(moments[500])) is not None) == expected
    assert wrong <= 0.03 * RUNS

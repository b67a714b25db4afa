"""A slow rank is named in most jobs, and hardly ever one of a healthy job, however often one looks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.monitor.stragglers import FEWEST_INDEPENDENT, SILENT_S, RankVerdict, judge_ranks, look, stop
from conftest import long_rows_but, tries

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


def verdict(seconds: np.ndarray, at: int, before: int = 0) -> RankVerdict:
    """When so many steps were taken, after `before` others."""
    kept = range(max(0, at - 4096), at)
    return judge_ranks(
        {rank: {before + step + 1: float(own[step]) for step in kept} for rank, own in enumerate(seconds)}
    )


def named(seconds: np.ndarray, at: int, before: int = 0) -> list[int]:
    """Ranks that are named when so many steps were taken."""
    return [one.rank for one in verdict(seconds, at, before).slow]


@pytest.mark.parametrize(
    ("ranks", "options"),
    long_rows_but(
        4,
        [
            (2, {}),
            (2, {"noise": 0.05, "memory": 0.98}),
            (8, {"noise": 0.05, "memory": 0.98}),
            (2, {"noise": 0.05, "memory": 0.995}),
            (2, {"tail": 3.0, "memory": 0.9}),
            (8, {"noise": 0.05, "memory": 0.9}),
            (8, {"noise": 0.3}),
            (8, {"tail": 3.0}),
            (8, {"memory": 0.8}),
            (64, {"tail": 3.0, "memory": 0.6}),
            (512, {}),
        ],
    ),
)
def test_a_healthy_job_has_a_rank_named_in_at_most_5_of_100_over_all_looks(
    ranks: int, options: dict[str, float]
) -> None:
    rng = np.random.default_rng(16)
    jobs, wrong = tries(RUNS), 0
    at_once = min(max(1600 // ranks, 1), jobs)
    for first in range(0, jobs, at_once):
        count = min(at_once, jobs - first)
        logs = np.log(job(rng, count * ranks, 512, **options)).reshape(count, ranks, 512)
        looks = [look(logs[..., :at]) for at in range(64, 513, 64)]
        beyond = [(window.means > window.limits()).any(axis=-1) for one in looks for window in one]
        wrong += np.any(beyond, axis=0).sum()
    assert wrong <= 0.05 * jobs + 2 * math.sqrt(0.05 * 0.95 * jobs)


@pytest.mark.parametrize("before", [0, 10**6 // 64 * 64])
def test_a_slow_rank_is_found_within_640_steps_however_old_the_job_is(before: int) -> None:
    rng = np.random.default_rng(78)
    for _ in range(20):
        seconds = job(rng, 8, 640, noise=0.05, slow=1.1)
        assert any(named(seconds, at, before) == [0] for at in range(64, 641, 64))


def test_a_rank_that_becomes_slow_after_thousands_of_steps_is_named_soon_and_stays_named() -> None:
    rng = np.random.default_rng(79)
    for ranks in (2, 8):
        seconds = job(rng, ranks, 4096 + 640, noise=0.05)
        seconds[0, 4096:] *= 1.15
        assert [named(seconds, at) for at in range(4096 + 256, 4096 + 641, 64)] == [[0]] * 7


def test_steps_that_resemble_each_other_too_long_are_said_to_be_too_few() -> None:
    rng = np.random.default_rng(80)
    seconds = job(rng, 4, 1024, noise=0.05, memory=0.995)
    found = verdict(seconds, 1024)
    assert found.slow == ()
    assert found.named_from is None
    assert found.correlated.keys() == {0, 1, 2, 3}
    assert all(steps > 1024 / FEWEST_INDEPENDENT for steps in found.correlated.values())
    assert found.steps == 1024


def test_the_ratio_from_which_a_rank_is_named_is_stated_and_true() -> None:
    rng = np.random.default_rng(81)
    found = 0
    for _ in range(50):
        seconds = job(rng, 8, 256)
        named_from = verdict(seconds, 256).named_from
        assert named_from is not None
        seconds[0] *= named_from * 1.03
        found += named(seconds, 256) == [0]
    assert found >= 47


@pytest.mark.parametrize(
    ("ranks", "slow", "at"), long_rows_but(1, [(8, 1.3, 128), (2, 1.5, 128), (64, 1.3, 128), (8, 1.15, 512)])
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
    (found,) = judge_ranks(times).slow
    assert found.low <= 1.4 <= found.high
    assert found.ratio == pytest.approx(1.4, rel=0.05)
    assert found.steps == 256


def test_too_little_to_tell_names_nobody() -> None:
    long = dict.fromkeys(range(1, 90), 1.0)
    for times in (
        {},
        {0: long},
        {0: {1: 1.0}, 1: {1: 9.0}},
        {0: long, 1: {}},
        {0: long, 1: dict.fromkeys(long, 0.0)},
    ):
        found = judge_ranks(times)
        assert (found.slow, found.named_from) == ((), None)


def test_ranks_that_wait_for_each_other_take_the_same_time_and_nobody_is_named() -> None:
    rng = np.random.default_rng(19)
    together = np.maximum.reduce(job(rng, 8, 256, slow=2.0))
    times = {rank: dict(enumerate(map(float, together), 1)) for rank in range(8)}
    assert judge_ranks(times).slow == ()


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

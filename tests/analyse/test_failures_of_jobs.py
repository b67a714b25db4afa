"""Intervals of the time between failures cover the truth, with censored jobs; healthy nodes are not named."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.goodput import (
    by_node,
    by_size,
    checkpoint_interval,
    daly_s,
    failure_rate,
    goodput,
    of_nodes,
    waste,
    young_s,
)
from assay.formats.job_attempts import JobAttempt, Outcome
from conftest import long_rows_but, tries

HOUR_S = 3600.0


def attempt(
    begin: float, end: float, outcome: Outcome = "completed", *nodes: str, **parts: float | str
) -> JobAttempt:
    return JobAttempt("j", nodes or ("n1",), begin, end, outcome, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean_h", "jobs"), long_rows_but(1, [(20.0, 30), (5.0, 30), (100.0, 30), (2.0, 300)])
)
def test_intervals_cover_the_true_mean_with_jobs_that_end_or_still_run(mean_h: float, jobs: int) -> None:
    """Jobs of random length, cut by the end of a week: 95 % of intervals have the truth, at least."""
    rng, runs, hits = np.random.default_rng(5), tries(1000), 0
    for _ in range(runs):
        begins = rng.uniform(0, 168, jobs)
        lengths, fails = rng.uniform(1, 60, jobs), rng.exponential(mean_h, jobs)
        ends = np.minimum(np.minimum(begins + lengths, begins + fails), 168)
        failed = (begins + fails <= begins + lengths) & (begins + fails <= 168)
        attempts = [
            attempt(b * HOUR_S, e * HOUR_S, "failed" if f else "running" if e == 168 else "completed")
            for b, e, f in zip(begins, ends, failed, strict=True)
        ]
        ((_, rate),) = by_size(attempts)
        hits += rate.low_s <= mean_h * HOUR_S <= (rate.high_s or math.inf)
    assert hits / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.long
def test_healthy_nodes_are_named_in_at_most_5_of_100_clusters_and_a_bad_one_in_most() -> None:
    rng, runs = np.random.default_rng(6), tries(300)
    named = found = 0
    for _ in range(runs):
        for bad in (False, True):
            attempts = []
            for node in range(40):
                fails = rng.poisson(8 * (5 if bad and node == 7 else 1) * 0.25)
                for shift in range(100):
                    outcome: Outcome = "interrupted" if shift < fails else "completed"
                    attempts.append(
                        attempt(shift * 10 * HOUR_S, (shift + 1) * 10 * HOUR_S, outcome, f"n{node}")
                    )
            suspects = [one.node for one in by_node(attempts) if one.suspect]
            if bad:
                found += "n7" in suspects
            else:
                named += bool(suspects)
    assert named / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert found / runs > 0.6


def test_published_figures_are_found_again() -> None:
    """Llama 3: 419 unexpected interruptions in 54 days; one every 3.09 hours."""
    rate = failure_rate([1] * 419, 54 * 24 * HOUR_S)
    assert rate.mean_s is not None
    assert [round(s / HOUR_S, 2) for s in (rate.low_s, rate.mean_s, rate.high_s or 0)] == [2.81, 3.09, 3.41]
    assert round(young_s(60, rate.mean_s) / 60) == 19
    assert round(daly_s(60, rate.mean_s) / 60) == 19
    assert round(waste(60, rate.mean_s), 1) == 0.1


@pytest.mark.parametrize(("cost_s", "mean_s"), [(60, 10800), (600, 10800), (300, 86400), (2000, 7200)])
def test_what_checkpoints_and_failures_take_is_what_a_simulation_loses(cost_s: float, mean_s: float) -> None:
    dice = random.Random(7)
    work_s = daly_s(cost_s, mean_s)
    lives = [dice.expovariate(1 / mean_s) for _ in range(100_000)]
    useful = sum(work_s * int(life / (work_s + cost_s)) for life in lives)
    assert 1 - useful / sum(lives) == pytest.approx(waste(cost_s, mean_s), abs=0.005)


def test_without_a_failure_there_is_a_bound_and_no_mean() -> None:
    rate = failure_rate([], 30 * HOUR_S)
    assert (rate.mean_s, rate.high_s) == (None, None)
    assert rate.low_s == pytest.approx(30 * HOUR_S / 2.996, rel=1e-3)
    found = checkpoint_interval(rate, 60)
    assert (found.daly_s, found.high_s, found.waste) == (None, None, None)
    assert found.low_s > 0


@pytest.mark.parametrize(("sizes", "time_s"), [([0], 10.0), ([1], 0.0), ([1], -5.0), ([1], math.nan)])
def test_what_is_no_observation_is_an_error(sizes: list[int], time_s: float) -> None:
    with pytest.raises(ValueError, match="expected counts"):
        failure_rate(sizes, time_s)


def days_of(jobs_on_a_node: int, nodes: int, mean_h: float, rng: np.random.Generator) -> list[JobAttempt]:
    """Ten days of nodes that interrupt all of their jobs when they fail, at this rate."""
    found = []
    for node in range(nodes):
        at_h = 0.0
        while at_h < 240:
            end_h = min(240.0, at_h + rng.exponential(mean_h))
            outcome: Outcome = "interrupted" if end_h < 240 else "completed"
            found += [attempt(at_h * HOUR_S, end_h * HOUR_S, outcome, f"n{node}")] * jobs_on_a_node
            at_h = end_h + 0.1
    return found


def test_jobs_that_a_node_takes_along_are_one_incident() -> None:
    """Eight jobs a node: intervals of both rates cover the truth as they do with one job a node."""
    rng, runs, hits = np.random.default_rng(8), tries(400), np.zeros(2)
    for _ in range(runs):
        attempts = days_of(8, 16, 500, rng)
        rates = by_size(attempts)[0][1], of_nodes(attempts)
        hits += [
            rate is not None and rate.low_s <= 500 * HOUR_S <= (rate.high_s or math.inf) for rate in rates
        ]
    assert min(hits) / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)
    once = [
        attempt(0, 10 * HOUR_S if n else 5 * HOUR_S, "completed" if n else "interrupted", f"n{n}")
        for n in range(16)
    ]
    eight = once * 8
    assert not any(node.suspect for node in by_node(eight))
    rate = of_nodes(eight)
    assert rate is not None
    assert (rate.incidents, rate.time_s) == (1, 155 * HOUR_S)


def jobs_that_fail_again(mean_h: float, chance: float, rng: np.random.Generator) -> list[JobAttempt]:
    """Four jobs a day long, for 300 h: a failure repeats with this chance, 7 minutes after the restart."""
    found = []
    for job in range(4):
        at_h, failed = rng.uniform(0, 5), False
        while at_h < 300:
            again = failed and rng.random() < chance
            life_h = rng.exponential(0.12 if again else mean_h / (1 - chance))
            end_h = min(at_h + 24, 300)
            failed = at_h + life_h < end_h
            ended_h = at_h + life_h if failed else end_h
            outcome: Outcome = "interrupted" if failed else "completed"
            found.append(attempt(at_h * HOUR_S, ended_h * HOUR_S, outcome, f"n{job}"))
            at_h = ended_h + 0.05
    return [replace(one, job=f"{one.nodes[0]}-{number}") for number, one in enumerate(found)]


@pytest.mark.parametrize(
    ("failures", "chance"), long_rows_but(2, [(40, 0.5), (40, 0.0), (10, 0.5), (120, 0.5), (120, 0.8)])
)
def test_intervals_cover_the_true_mean_where_failures_repeat_after_a_restart(
    failures: int, chance: float
) -> None:
    """Half of the failures repeat: counted as independent ones, three of four intervals held the truth."""
    rng, runs = np.random.default_rng(11), tries(900)
    seen = [by_size(jobs_that_fail_again(1200 / failures, chance, rng))[0][1] for _ in range(runs)]
    true_s = sum(rate.time_s for rate in seen) / sum(rate.failures for rate in seen)
    covered = sum(rate.low_s <= true_s <= (rate.high_s or math.inf) for rate in seen) / runs
    assert covered >= (0.90 if failures == 10 else 0.95) - 3 * math.sqrt(0.05 * 0.95 / runs)


def test_healthy_nodes_are_not_named_for_what_their_jobs_fail_from_again() -> None:
    rng, runs, named = np.random.default_rng(12), tries(120), 0
    for _ in range(runs):
        jobs = [jobs_that_fail_again(150, 0.6, rng) for _ in range(8)]
        attempts = [
            replace(one, job=f"{k}-{one.nodes[0]}", nodes=(f"{k}-{one.nodes[0]}",))
            for k, own in enumerate(jobs)
            for one in own
        ]
        named += any(one.suspect for one in by_node(attempts))
    assert named / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_node_on_which_every_job_dies_soon_is_named() -> None:
    attempts = days_of(1, 16, 500, np.random.default_rng(13))
    attempts += [
        JobAttempt(f"job{k}", ("n3",), k * 7200.0, k * 7200.0 + 120, "interrupted") for k in range(12)
    ]
    assert [one.node for one in by_node(attempts) if one.suspect] == ["n3"]


def test_a_failure_that_repeats_after_restarts_is_one_cause() -> None:
    lives_s = [20 * HOUR_S, 300, 900, 30 * HOUR_S]
    ends = np.cumsum(lives_s)
    attempts = [attempt(end - life, end, "interrupted") for life, end in zip(lives_s, ends, strict=True)]
    ((_, rate),) = by_size(attempts)
    assert (rate.failures, rate.incidents) == (4, 2)
    completed = replace(attempts[1], outcome="completed")
    ((_, rate),) = by_size([attempts[0], completed, *attempts[2:]])
    assert (rate.failures, rate.incidents) == (3, 3)


def programs_on(node: str, times: int, name: str) -> list[JobAttempt]:
    return [
        JobAttempt(f"{name}-{k}", (node,), k * 200.0, k * 200.0 + 120, "failed", program=name)
        for k in range(times)
    ]


@pytest.mark.parametrize(
    "what", ["jobs on one node and larger ones", "a program that always fails", "five users"]
)
def test_what_programs_and_sizes_of_jobs_explain_is_no_nodes_fault(what: str) -> None:
    rng, runs = np.random.default_rng(9), tries(300)
    named = 0
    for _ in range(runs):
        attempts = days_of(1, 16, 200, rng)
        if what == "jobs on one node and larger ones":
            large = days_of(1, 1, 200 / 28, rng)
            attempts = attempts[:4] + [replace(one, nodes=tuple(f"m{n}" for n in range(28))) for one in large]
        elif what == "a program that always fails":
            attempts += programs_on("n0", 10, "buggy")
        else:
            for user in range(5):
                attempts += programs_on("n3", int(1 + rng.geometric(0.3)), f"user{user}")
        named += any(one.suspect for one in by_node(attempts))
    assert named / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_node_on_which_programs_fail_that_run_elsewhere_is_named() -> None:
    attempts = days_of(1, 8, 1e9, np.random.default_rng(1))
    for program in range(6):
        for node in range(8):
            outcome: Outcome = "failed" if node == 5 else "completed"
            begin = program * 10_000.0
            attempts.append(
                JobAttempt("j", (f"n{node}",), begin, begin + 3600, outcome, program=f"p{program}")
            )
    assert [one.node for one in by_node(attempts) if one.suspect] == ["n5"]


def test_jobs_of_different_sizes_have_no_common_rate() -> None:
    large = [
        attempt(k * 3 * HOUR_S, (k + 1) * 3 * HOUR_S, "interrupted", *(f"m{n}" for n in range(256)))
        for k in range(8)
    ]
    small = [attempt(0, 24 * HOUR_S, "completed", f"n{n}") for n in range(100)]
    (of_large, of_small) = by_size(large + small)
    assert (of_large[0], of_large[1].mean_s) == (256, 3 * HOUR_S)
    assert (of_small[0], of_small[1].mean_s) == (1, None)


def test_a_node_is_blamed_only_if_the_source_names_it() -> None:
    attempts = [attempt(0, 10, "failed", "a", "b"), attempt(100, 110, "failed", "a", "b", blamed="b")]
    assert {one.node: one.failures for one in by_node(attempts)} == {"a": 0, "b": 1}
    rate = of_nodes(attempts)
    assert rate is not None
    assert (rate.failures, rate.time_s) == (2, 40)


def test_goodput_is_a_range_where_time_is_unknown_and_weighted_by_nodes() -> None:
    known = attempt(0, 100, "completed", "a", "b", productive_s=80.0, checkpoint_s=10.0, lost_s=10.0)
    found = goodput([known, attempt(0, 200, "completed", "c")])
    assert found is not None
    assert (found.wall_s, found.low, found.high) == (400, 0.4, 0.9)
    assert found.parts_s == {
        "productive": 160, "checkpoint": 20, "restart": 0, "lost": 20, "stall": 0, "unknown": 200,
    }  # fmt: skip
    with pytest.raises(ValueError, match="its parts take 300 s"):
        goodput([attempt(0, 100, "completed", productive_s=300.0)])

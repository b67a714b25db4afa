"""The split of time to train: exact whatever is zero, and intervals that cover what they promise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.mlperf.lmdi import Amounts, decompose, factors, log_mean
from assay.analyse.statistics.intervals import LogInterval
from conftest import long_but, long_rows_but

AMOUNT = st.one_of(st.just(0.0), st.floats(1e-3, 1e4))
POSITIVE = st.floats(1e-3, 1e4)
RUN = st.builds(
    Amounts,
    length=POSITIVE,
    evaluations=AMOUNT,
    start=AMOUNT,
    training=POSITIVE,
    evaluation=AMOUNT,
    rest=AMOUNT,
)


@given(RUN, RUN)
def test_the_product_of_the_factors_is_the_ratio_of_times_to_rounding(a: Amounts, b: Amounts) -> None:
    parts = decompose(a, b)
    product = math.exp(parts.log_of("convergence")) * math.exp(parts.log_of("system"))
    assert product == pytest.approx(b.minutes / a.minutes, rel=1e-12)
    assert math.fsum(p.minutes for p in parts.parts) == pytest.approx(
        b.minutes - a.minutes, abs=1e-11 * (a.minutes + b.minutes)
    )


@given(RUN, RUN)
def test_a_against_b_is_the_inverse_of_b_against_a(a: Amounts, b: Amounts) -> None:
    there, back = decompose(a, b), decompose(b, a)
    for factor in ("convergence", "system"):
        assert there.log_of(factor) == pytest.approx(-back.log_of(factor), abs=1e-11)


@given(RUN, st.floats(0.1, 10))
def test_twice_the_length_at_the_same_speed_is_convergence_alone(a: Amounts, times: float) -> None:
    a = a._replace(start=0, evaluation=0, rest=0)
    parts = decompose(a, a._replace(length=a.length * times, training=a.training * times))
    assert math.exp(parts.log_of("convergence")) == pytest.approx(times)
    assert parts.log_of("system") == pytest.approx(0, abs=1e-12)


def test_the_logarithmic_mean_lies_between_geometric_and_arithmetic_mean_and_is_steady_near_equality() -> (
    None
):
    assert math.sqrt(2 * 5) < log_mean(2, 5) < 3.5
    assert log_mean(1, 1 + 1e-15) == pytest.approx(1, abs=1e-14)
    assert log_mean(1e-300, 1e300) > 0


def test_evaluations_that_only_one_side_has_are_the_systems() -> None:
    a = Amounts(length=10, evaluations=0, start=0, training=10, evaluation=0, rest=0)
    parts = decompose(a, a._replace(evaluations=5, evaluation=2))
    assert parts.log_of("convergence") == 0
    assert parts.log_of("system") == pytest.approx(math.log(1.2))


def test_one_run_a_side_has_factors_and_no_interval() -> None:
    a = Amounts(length=10, evaluations=10, start=1, training=10, evaluation=2, rest=0)
    found = factors([a], [a._replace(training=11)])
    assert found.system.half is None
    assert found.system.why == "one run has no spread to judge by"
    assert found.system.centre == pytest.approx(math.log(14 / 13))


def test_a_drift_that_both_sides_of_a_block_share_is_no_noise() -> None:
    dice = random.Random(1)
    drift = [1 + 0.1 * block for block in range(5)]
    side = [Amounts(40, 40, 0.5 * d, 40 * d, 4 * d, 0.1 * d) for d in drift]
    other = [Amounts(*run[:2], *(t * dice.lognormvariate(0.02, 0.001) for t in run[2:])) for run in side]
    paired, unpaired = (factors(side, other, paired=design).system for design in (True, False))
    assert paired.half is not None
    assert unpaired.half is not None
    assert covers(paired, 0.02)
    assert paired.half < 0.01 < unpaired.half


def test_equal_seeds_in_a_block_converge_alike_and_that_is_known() -> None:
    side = [Amounts(n, n, 0.5, n, 0.1 * n, 0.1) for n in (38, 41, 44)]
    other = [Amounts(*run[:2], *(1.1 * t for t in run[2:])) for run in side]
    found = factors(side, other, paired=True).convergence
    assert (found.centre, found.half) == (pytest.approx(0, abs=1e-12), 0.0)


def test_a_run_that_took_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="took no time"):
        decompose(Amounts(1, 1, 0, 0, 0, 0), Amounts(1, 1, 1, 1, 1, 1))


CONVERGENCE, SYSTEM = 1.10, 0.97  # B needs 10 % more epochs, its system takes 3 % less


def simulated(random_: random.Random, n: int, length: float, pace: float) -> list[Amounts]:
    """Runs whose length varies by 9 % and whose times vary by 0.6 %."""
    made = []
    for _ in range(n):
        epochs = length * random_.lognormvariate(0, 0.09)
        speed = pace * random_.lognormvariate(0, 0.006)
        made.append(Amounts(epochs, epochs, 0.5 * speed, epochs * speed, 0.1 * epochs * speed, 0.2 * speed))
    return made


def truth() -> tuple[float, float]:
    a = Amounts(40, 40, 0.5, 40, 4, 0.2)
    longer = 40 * CONVERGENCE
    b = Amounts(longer, longer, *(SYSTEM * t for t in (0.5, longer, 0.1 * longer, 0.2)))
    parts = decompose(a, b)
    return parts.log_of("convergence"), parts.log_of("system")


def covers(interval: LogInterval, value: float) -> bool:
    return interval.half is not None and abs(interval.centre - value) <= interval.half


@pytest.mark.slow
@pytest.mark.parametrize(("n", "narrower"), long_rows_but(1, [(3, 0.03), (5, 0.015), (10, 0.01)]))
def test_intervals_cover_the_known_factors_and_the_systems_is_far_narrower(n: int, narrower: float) -> None:
    random_ = random.Random(20261121 + n)
    true_convergence, true_system = truth()
    found = [
        factors(simulated(random_, n, 40, 1), simulated(random_, n, 40 * CONVERGENCE, SYSTEM))
        for _ in range(3000)
    ]
    for name, value in (("convergence", true_convergence), ("system", true_system)):
        share = sum(covers(getattr(f, name), value) for f in found) / len(found)
        assert 0.94 <= share <= 0.985, (name, share)
    halves = sorted(f.system.half for f in found if f.system.half is not None)
    whole = sorted(f.time.half for f in found if f.time.half is not None)
    assert halves[len(halves) // 2] < narrower
    assert whole[len(whole) // 2] > 8 * halves[len(halves) // 2]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("n", long_but(1, [3, 5, 10]))
def test_paired_intervals_cover_the_system_factor_through_a_drift(n: int) -> None:
    dice = random.Random(20261121 + n)
    _, true_system = truth()
    hits = 0
    for _ in range(6000):
        a, b = simulated(dice, n, 40, 1), simulated(dice, n, 40 * CONVERGENCE, SYSTEM)
        drift = [1 + 0.02 * block for block in range(n)]
        a, b = (
            [Amounts(*run[:2], *(t * d for t in run[2:])) for run, d in zip(side, drift, strict=True)]
            for side in (a, b)
        )
        hits += covers(factors(a, b, paired=True).system, true_system)
    assert 0.94 <= hits / 6000 <= 0.985

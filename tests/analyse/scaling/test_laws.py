"""Laws of scaling: known ones are recovered, with the coverage that their intervals promise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from assay.analyse.scaling.laws import Name, Size, fit, held_out, typical_error
from conftest import tries


def ideal(n: float, sigma: float, kappa: float = 0.0, speed: float = 100.0) -> float:
    """Throughput by the law itself."""
    return speed * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def sizes(
    ranks: Sequence[int],
    sigma: float,
    kappa: float = 0.0,
    *,
    runs: int = 3,
    spread: float = 0.0,
    seed: int = 0,
) -> list[Size]:
    """Runs that follow the law but for their luck, independent and of one spread."""
    luck = np.random.default_rng(seed).normal(0, spread, (len(ranks), runs)) if spread else None
    return [
        Size(n, tuple(math.log(ideal(n, sigma, kappa)) + (0.0 if luck is None else luck[i]) * np.ones(runs)))
        for i, n in enumerate(ranks)
    ]


@pytest.mark.parametrize(
    ("sigma", "kappa"), [(0.0, 0.0), (0.03, 0.0), (0.03, 0.0005), (0.3, 0.01), (0.0, 0.002)]
)
def test_a_law_without_noise_is_recovered(sigma: float, kappa: float) -> None:
    name: Name = "usl" if kappa else "amdahl"
    found = fit(sizes([1, 2, 4, 8, 16, 32], sigma, kappa), name)
    assert found is not None
    assert found.share(0).value == pytest.approx(sigma, abs=1e-7)
    assert len(found.shares) == 1 or found.share(1).value == pytest.approx(kappa, abs=1e-8)
    assert math.exp(found.log_speed(64)[0]) == pytest.approx(ideal(64, sigma, kappa))
    assert found.efficiency(64).value == pytest.approx(ideal(64, sigma, kappa) / 6400)
    assert found.share(0).low is None, "no scatter at all is no ground for an interval"


def test_two_sizes_give_the_serial_share_that_their_speedup_says() -> None:
    found = fit(sizes([1, 2], 0.1, spread=0.01), "amdahl")
    assert found is not None
    one, two = (math.fsum(s.logs) / len(s.logs) for s in found.sizes)
    assert found.share(0).value == pytest.approx(2 / math.exp(two - one) - 1)


def test_too_few_sizes_have_no_law() -> None:
    assert fit(sizes([4], 0.1), "amdahl") is None
    assert fit(sizes([1, 2], 0.1), "usl") is None
    assert held_out(sizes([1, 2], 0.1), "amdahl") == ()


def test_slower_than_linear_is_no_negative_share_and_faster_than_linear_is_zero() -> None:
    falling = fit([Size(1, (0.0, 0.01)), Size(2, (-0.5, -0.51))], "amdahl")
    rising = fit([Size(1, (0.0, 0.01)), Size(2, (1.0, 1.01))], "amdahl")
    assert falling is not None
    assert rising is not None
    assert (falling.share(0).value, rising.share(0).value) == (1.0, 0.0)


CASES = {
    "3 runs on 4 sizes": ("amdahl", (1, 2, 4, 8), 0.02, 0.0, 3, 0.0),
    "nothing serial": ("amdahl", (1, 2, 4, 8), 0.0, 0.0, 3, 0.0),
    "blocks that differ more than their sizes": ("amdahl", (1, 2, 4), 0.05, 0.0, 5, 0.03),
    "one run a size": ("amdahl", (1, 2, 4, 8, 16), 0.05, 0.0, 1, 0.0),
    "coherence": ("usl", (1, 2, 4, 8, 16, 32), 0.03, 0.0005, 3, 0.02),
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_the_truth_and_no_true_point_is_doubted(case: str) -> None:
    """At a spread of 1 %; bounds are 3 standard errors from the promise, on the side that breaks it."""
    name, ranks, sigma, kappa, runs, block_spread = CASES[case]
    replicates = 40 if name == "usl" else tries(200)
    rng = np.random.default_rng(1)
    beyond = 2 * ranks[-1]
    truth = math.log(ideal(beyond, sigma, kappa))
    hits = {"serial": 0, "coherence": 0, "speed": 0, "efficiency": 0, "doubted": 0}
    for _ in range(replicates):
        blocks = rng.normal(0, block_spread, runs) if block_spread else np.zeros(runs)
        drawn = [
            Size(n, tuple(math.log(ideal(n, sigma, kappa)) + blocks + rng.normal(0, 0.01, runs)))
            for n in ranks
        ]
        blocked = block_spread > 0
        found = fit(drawn, name, blocked=blocked)  # type: ignore[arg-type]
        assert found is not None
        serial, speed, efficiency = found.share(0), found.log_speed(beyond), found.efficiency(beyond)
        hits["serial"] += (serial.low or 0) <= sigma <= (serial.high or 0)
        if name == "usl":
            coherence = found.share(1)
            hits["coherence"] += (coherence.low or 0) <= kappa <= (coherence.high or 0)
        hits["speed"] += speed[1] is None or speed[2] is None or speed[1] <= truth <= speed[2]
        hits["efficiency"] += (
            (efficiency.low or 0) <= math.exp(truth) / 100 / beyond <= (efficiency.high or 0)
        )
        hits["doubted"] += any(e.beyond for e in held_out(drawn, name, blocked=blocked))  # type: ignore[arg-type]
    share = {what: count / replicates for what, count in hits.items()}
    slack = 3 * math.sqrt(0.05 * 0.95 / replicates)
    assert share["serial"] >= 0.95 - slack
    assert share["speed"] >= 0.95 - slack
    assert share["efficiency"] >= 0.95 - slack
    assert name == "amdahl" or share["coherence"] >= 0.95 - slack
    assert share["doubted"] <= 0.05 + slack


def test_a_size_that_does_not_fit_the_others_is_found_and_the_others_are_not() -> None:
    drawn = sizes([1, 2, 4, 8, 16], 0.02, runs=5, spread=0.005)
    drawn[2] = Size(4, tuple(log - 0.15 for log in drawn[2].logs))
    errors = held_out(drawn, "amdahl")
    assert [e.ranks for e in errors if e.beyond] == [4]
    assert errors[2].error == pytest.approx(math.expm1(-0.15), abs=0.02)
    assert typical_error(errors) == pytest.approx(math.sqrt(sum(e.error**2 for e in errors) / 5))


def test_means_that_miss_the_law_widen_the_interval_and_say_so() -> None:
    """Throughput that Amdahl's law can't bend to: coherence."""
    drawn = sizes([1, 2, 4, 8, 16, 32], 0.01, 0.003, runs=5, spread=0.002)
    amdahl, usl = fit(drawn, "amdahl"), fit(drawn, "usl")
    assert amdahl is not None
    assert usl is not None
    assert not amdahl.fits
    assert usl.fits
    assert typical_error(held_out(drawn, "usl")) < typical_error(held_out(drawn, "amdahl"))  # type: ignore[operator]
    wide, narrow = amdahl.efficiency(64), usl.efficiency(64)
    assert (wide.high or 0) - (wide.low or 0) > (narrow.high or 0) - (narrow.low or 0)


def test_what_blocks_share_does_not_widen_the_serial_share() -> None:
    luck = (0.0, 0.1, -0.1, 0.05)
    drawn = [
        Size(n, tuple(math.log(ideal(n, 0.05)) + b + 0.001 * ((i * n) % 3) for i, b in enumerate(luck)))
        for n in (1, 2, 4)
    ]
    together, apart = fit(drawn, "amdahl", blocked=True), fit(drawn, "amdahl")
    assert together is not None
    assert apart is not None
    assert together.share(0).value == apart.share(0).value
    narrow, wide = together.share(0), apart.share(0)
    assert (narrow.high or 0) - (narrow.low or 0) < ((wide.high or 0) - (wide.low or 0)) / 10
    _, low, high = together.log_speed(8)
    assert low is not None
    assert high is not None
    assert high - low > 0.1, "how fast the machine is at all is as uncertain as its blocks are"

"""Steps and drifts are found soon, named as what they are, and rarely where there is none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.analyse.statistics.level_shifts import FEWEST, Split, false_change_rate, split
from conftest import tries

Series = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Series]


def noisy(levels: list[float], noise: float, seed: int = 1) -> list[float]:
    luck = random.Random(seed)
    return [math.log(level) + luck.gauss(0, noise) for level in levels]


def test_a_plain_step_is_found_where_it_is_with_its_size() -> None:
    found = split(noisy([100.0] * 8 + [95.0] * 7, 0.004, seed=2))
    [step] = found.steps
    assert (step.kind, step.after, step.before) == ("step", 7, 8)
    assert step.earliest <= 8 <= step.latest
    assert step.ratio.low is not None
    assert step.ratio.high is not None
    assert step.ratio.low < 0.95 < step.ratio.high < 1
    assert found.spread == pytest.approx(0.004, rel=0.6)
    assert found.reason == ""


def test_two_steps_there_and_back_are_two() -> None:
    found = split(noisy([100.0] * 8 + [90.0] * 6 + [100.0] * 8, 0.005, seed=2))
    assert [(step.kind, step.before) for step in found.steps] == [("step", 8), ("step", 14)]
    assert found.steps[0].ratio.value < 1 < found.steps[1].ratio.value
    assert [math.exp(level) for level in found.levels] == pytest.approx([100, 90, 100], rel=0.01)


def test_one_session_alone_that_is_off_is_no_step() -> None:
    values = [*noisy([100.0] * 7, 0.01), math.log(80), *noisy([100.0] * 7, 0.01, seed=2)]
    assert split(values).steps == ()


def test_too_few_sessions_and_values_without_spread_say_so() -> None:
    short = split([0.0, 0.1, 0.2, 0.3, 0.4][: FEWEST - 1])
    assert (short.steps, short.reason) == ((), "5 sessions; steps can be detected from 6 on")
    assert split([1.0] * 9).reason == "all sessions have the same value"


def test_a_step_between_values_without_noise_is_certain() -> None:
    [step] = split([0.0] * 5 + [0.1] * 5).steps
    assert (step.earliest, step.before, step.latest) == (5, 5, 5)
    assert step.ratio.value == pytest.approx(math.exp(0.1))


def test_a_slow_drift_is_one_drift_and_no_steps() -> None:
    luck = random.Random(3)
    found = split([luck.gauss(0, 0.01) - 0.001 * max(0, at - 30) for at in range(90)])
    [drift] = found.steps
    assert drift.kind == "drift"
    assert drift.earliest == pytest.approx(30, abs=10)
    assert drift.latest == drift.before == pytest.approx(89, abs=10)
    assert drift.ratio.low is not None
    assert drift.ratio.high is not None
    assert drift.ratio.low < math.exp(-0.059) < drift.ratio.high


def test_what_was_found_stays_found_with_every_further_session() -> None:
    luck = np.random.default_rng(4)
    values = [*luck.normal(0, 0.01, 20), *luck.normal(-0.04, 0.01, 15)]
    seen = [bool(split(values[:end]).steps) for end in range(FEWEST, len(values) + 1)]
    assert seen == sorted(seen)
    assert seen[-1]


def test_a_step_next_to_a_drift_that_took_the_values_between_has_its_own_place() -> None:
    """Quiet sessions, then noisy ones: the drift ends right before the step."""
    luck = np.random.default_rng(28)
    split([*luck.normal(0, 0.005, 30), *luck.normal(0, 0.02, 28)])


def wild(luck: np.random.Generator) -> Series:
    """A short history of any kind: noise, jumps, drifts, a changed spread, coarse or huge values."""
    n = int(luck.integers(1, 25))
    noises = (luck.standard_normal, lambda n: luck.standard_t(1, n), lambda n: dependent(luck, n), np.zeros)
    x = noises[luck.integers(len(noises))](n)
    x = x * np.where(np.arange(n) < luck.integers(25), 1, 10 ** luck.uniform(-3, 3))
    for _ in range(luck.integers(4)):
        x[luck.integers(n) :] += luck.normal(0, 10)
    x = x + luck.choice([0, 0, 1]) * np.arange(n)
    x = np.round(x) if luck.random() < 0.2 else x
    return x * 10 ** luck.uniform(-14, 2.5)


def test_no_history_of_5000_of_any_kind_raises() -> None:
    luck = np.random.default_rng(37)
    for _ in range(5000):
        for step in split(wild(luck).tolist()).steps:
            assert 0 < step.earliest <= step.before <= step.latest
            assert math.isfinite(step.ratio.value)


def independent(luck: np.random.Generator, n: int) -> Series:
    return luck.standard_normal(n)


def heavy(luck: np.random.Generator, n: int) -> Series:
    return luck.standard_t(3, n) / math.sqrt(3)


def dependent(luck: np.random.Generator, n: int) -> Series:
    """Each session resembles the one before: correlation 0.5."""
    x = luck.standard_normal(n)
    for at in range(1, n):
        x[at] = 0.5 * x[at - 1] + math.sqrt(0.75) * x[at]
    return x


@pytest.mark.parametrize("noise", [independent, heavy, dependent])
def test_healthy_sessions_read_every_night_show_a_false_step_as_seldom_as_promised(noise: Draw) -> None:
    """A change that any night showed is shown by the last one, so that one look stands for all of them."""
    nights, histories = 60, tries(80)
    luck = np.random.default_rng(20260301)
    shown = sum(bool(split(list(0.01 * noise(luck, nights))).steps) for _ in range(histories))
    most = false_change_rate(nights)
    assert most < 0.16
    assert shown / histories <= most + 2.5 * math.sqrt(most * (1 - most) / histories)


@pytest.mark.parametrize("factor", [0.25, 2, 4, 7])
def test_a_change_of_spread_alone_is_seldom_a_step_and_hardly_ever_better_or_worse(factor: float) -> None:
    """By 60 sessions, 3, 6 and 11 % of 250 histories whose spread grew 2-, 4- and 7-fold had a step."""
    luck, histories = np.random.default_rng(58), tries(60)
    spreads = 0.005 * np.where(np.arange(60) < 30, 1, factor)
    found = [split(list(spreads * luck.standard_normal(60))).steps for _ in range(histories)]
    most = false_change_rate(60)
    slack = 2.5 * math.sqrt(most * (1 - most) / histories)
    assert sum(map(bool, found)) / histories <= most + slack
    assert sum(any(step.certain for step in steps) for steps in found) / histories <= 0.05 + slack / 2


def test_the_size_of_a_step_to_a_noisier_level_is_as_sure_as_it_says() -> None:
    luck, held, found = np.random.default_rng(6), 0, 0
    for _ in range(40):
        values = 0.01 * np.where(np.arange(60) < 30, 1, 3) * luck.standard_normal(60)
        steps = split(list(values + 0.06 * (np.arange(60) >= 30))).steps
        if steps:
            step = min(steps, key=lambda step: abs(step.before - 30))
            found += 1
            held += (step.ratio.low or 0) <= math.exp(0.06) <= (step.ratio.high or math.inf)
    assert found >= 36
    assert held / found >= 0.94 - 3 * math.sqrt(0.06 * 0.94 / found)


def test_a_step_of_3_spreads_is_found_within_seven_sessions() -> None:
    luck = np.random.default_rng(5)
    histories = 60
    found = 0
    for _ in range(histories):
        values = 0.01 * luck.standard_normal(57)
        values[50:] -= 0.03
        found += any(step.earliest <= 50 for step in split(list(values)).steps)
    assert found / histories > 0.75  # 90 % of 200


def simulated(n: int, times: int, jump: float, seed: int = 20260301) -> Iterator[tuple[int, Split]]:
    """Histories of normal values with a spread of 1 % and one step of `jump` spreads; where it is."""
    random_ = np.random.default_rng(seed)
    for _ in range(times):
        place = int(random_.integers(6, n - 5))
        values = 0.01 * random_.standard_normal(n)
        values[place:] += 0.01 * jump
        yield place, split([float(value) for value in values])


@pytest.mark.parametrize(("n", "jump", "power"), [(20, 5, 0.9), (40, 3, 0.75)])
def test_place_and_size_of_a_step_are_as_sure_as_they_say(n: int, jump: int, power: float) -> None:
    seen = place_held = size_held = named = 0
    for place, found in simulated(n, 100, jump):
        if not found.steps:
            continue
        step = min(found.steps, key=lambda step: abs(step.before - place))
        assert step.ratio.low is not None
        assert step.ratio.high is not None
        seen += 1
        named += step.kind != "drift"
        place_held += step.earliest <= place <= step.latest
        size_held += step.ratio.low <= math.exp(0.01 * jump) <= step.ratio.high
    slack = 3 * math.sqrt(0.06 * 0.94 / seen)
    assert seen / 100 >= power
    assert place_held / seen >= 0.94 - slack
    assert size_held / seen >= 0.94 - slack
    assert named / seen >= 0.9

"""Verdicts of an exploration: their error allows for looks and for many candidates."""

from __future__ import annotations

import random

from assay.records import Point
from assay.stacks.exploring.measuring import CandidateBlocks, comparison, gain, schedule, survivors, verdicts

RATE = Point("work", "1x1", "rate", "1/s", "higher", {})


def _pairs(name: str, effect: float, blocks: int, noise: random.Random) -> CandidateBlocks:
    values = []
    for _ in range(blocks):
        shared = noise.gauss(0, 0.1)  # drift, equal for both of a block
        values.append(
            (2.718 ** (shared + noise.gauss(0, 0.01)), 2.718 ** (effect + shared + noise.gauss(0, 0.01)))
        )
    return CandidateBlocks(name, tuple(values))


def test_of_many_equal_stacks_hardly_ever_one_is_called_faster() -> None:
    noise, wrong = random.Random(5), 0
    for _ in range(200):
        whole = [_pairs(f"s{at}", 0.0, 12, noise) for at in range(10)]
        called = set()
        for look in schedule(12):
            found = {
                one.name: comparison(
                    CandidateBlocks(one.name, one.values[:look]), RATE, "incumbent", 0.02, 12
                )
                for one in whole
            }
            called |= {name for name, c in verdicts(found).items() if c.verdict in ("faster", "slower")}
        wrong += bool(called)
    assert wrong <= 17  # 5 % of 200, with P(more) below 2 % if the error is exactly 5 %


def test_a_stack_that_is_ten_percent_faster_is_found_among_ten() -> None:
    noise = random.Random(6)
    found = {
        f"s{at}": comparison(_pairs(f"s{at}", 0.1 * (at == 4), 12, noise), RATE, "incumbent", 0.02, 12)
        for at in range(10)
    }
    called = verdicts(found)
    assert called["s4"].verdict == "faster"
    assert called["s4"].by_margin
    assert gain(called["s4"]) == max(map(gain, called.values()))


def test_the_slower_and_the_equivalent_stop_and_the_better_half_goes_on() -> None:
    noise = random.Random(7)
    effects = {"slow": -0.5, "fast": 0.3, "even": 0.0, "good": 0.2}
    found = [
        comparison(_pairs(name, effect, 5, noise), RATE, "incumbent", 0.02, 12)
        for name, effect in effects.items()
    ]
    assert survivors(found, 5, 12) == ("fast", "good")
    assert survivors(found, 12, 12) == ()

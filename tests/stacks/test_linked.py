"""Stacks compared by the sessions that link them: the intervals hold what they promise."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field

import pytest

from assay.analyse.comparison.families import corrected
from assay.records import Comparison
from assay.stacks.effects import NEVER_TOGETHER, LinkedStacks
from assay.stacks.stack import Observation
from conftest import long_but, tries
from observed_figures import observed

RUNGS = (3, 2, 3, 4)  # blocks of the sessions of an exploration with 12 repeats


def compared(a: list[Observation], b: list[Observation], margin: float = 0.02) -> Comparison:
    found = LinkedStacks({"a": a, "b": b}).compare("a", "b", ("a", "b"), margin)
    assert found is not None
    return found.comparison


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


def false_claims(count: int, *, together: bool, day: float, own: float) -> float:
    """Share of cases without any effect in which one is claimed."""
    dice = random.Random(7)
    claimed, cases = 0, tries(600)
    for _ in range(cases):
        a, b = sessions(dice, count, day=day, own=own, together=together)
        found = compared(a, b, 0.001)
        claimed += found.verdict in ("faster", "slower")
    return claimed / cases


@pytest.mark.parametrize("count", long_but(1, [3, 2, 5]))
@pytest.mark.parametrize("together", [True, False])
def test_without_an_effect_few_claim_one_however_much_sessions_differ(count: int, together: bool) -> None:
    assert false_claims(count, together=together, day=0.03, own=0.005) <= 0.05 + 3 * math.sqrt(
        0.05 * 0.95 / tries(600)
    )


def test_runs_as_the_unit_would_claim_effects_that_are_not_there() -> None:
    """Why sessions are the unit: the runs of one session agree far better than sessions do."""
    assert false_claims(1, together=True, day=0.03, own=0.005) > 0.2  # the doubt one-session says so


def test_an_effect_is_found_and_its_interval_holds_it_in_95_of_100_cases() -> None:
    dice = random.Random(3)
    inside = 0
    for _ in range(400):
        a, b = sessions(dice, 4, effect=0.04, day=0.03, own=0.004)
        found = compared(a, b)
        low, high = found.ratio.low, found.ratio.high
        assert low is not None
        assert high is not None
        inside += low <= 2.718281828**0.04 <= high
    assert 0.92 <= inside / 400 <= 0.98


def test_one_session_is_compared_by_blocks_and_doubted() -> None:
    a, b = observed("a", 1, [1.0, 2.0, 4.0]), observed("b", 1, [1.1, 2.2, 4.41])
    found = compared([a], [b])
    assert (found.method, found.replication, found.verdict) == ("linked", "runs", "faster")
    assert "one-session" in {doubt.code for doubt in found.doubts}


def test_without_blocks_in_common_runs_are_not_paired() -> None:
    a = observed("a", 1, [1.0, 1.01, 1.02], interleaved=False)
    b = observed("b", 1, [1.1, 1.11, 1.12], interleaved=False)
    found = compared([a], [b])
    assert "not-interleaved" in {doubt.code for doubt in found.doubts}


def test_one_session_each_gives_a_ratio_without_an_interval() -> None:
    found = compared([observed("a", 1, [1.0, 1.0])], [observed("b", 2, [2.0, 2.0])])
    assert (found.ratio.value, found.ratio.low, found.verdict) == (pytest.approx(2.0), None, "undecided")
    assert NEVER_TOGETHER in found.reason


def test_time_lost_to_others_stretches_the_interval_as_it_does_for_systems() -> None:
    pairs = [([100.0 + d, 101.0, 99.0], [104.0, 105.1, 103.0]) for d in (0.0, 0.5, 1.0)]
    a = [observed("a", at, x, lost=0.1) for at, (x, _) in enumerate(pairs)]
    b = [observed("b", at, y, lost=0.0) for at, (_, y) in enumerate(pairs)]
    found = compared(a, b)
    assert found.verdict == "undecided"
    assert "may have held" in found.reason


def test_a_value_that_is_not_above_zero_has_no_ratio() -> None:
    zero = observed("a", 1, [0.0, 1.0])
    linked = LinkedStacks({"a": [zero], "b": [observed("b", 1, [1.0, 1.0])]})
    assert linked.compare("a", "b", ("a", "b"), 0.02) is None


def test_the_same_value_in_every_run_allows_no_interval() -> None:
    a, b = ([observed(name, at, [speed, speed]) for at in (1, 2)] for name, speed in (("a", 1.0), ("b", 2.0)))
    found = compared(a, b)
    assert (found.ratio.low, found.verdict) == (None, "undecided")
    assert "gave the same value" in found.reason


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the logarithm: of sessions, of a stack in a session, of blocks and of runs."""

    day: float = 0.1
    own: float = 0.01
    block: float = 0.02
    run: float = 0.02
    louder: dict[str, float] = field(default_factory=dict)  # stack → factor on its own and its runs'


def explored(
    dice: random.Random,
    candidates: int,
    noise: Noise,
    effects: dict[str, float],
    rungs: tuple[int, ...] = RUNGS,
) -> dict[str, list[Observation]]:
    """What an exploration measures: batches of four with the incumbent, of which the better half goes on."""
    found: dict[str, list[Observation]] = {"incumbent": []}
    for first in range(0, candidates, 4):
        running = [f"s{at}" for at in range(first, min(first + 4, candidates))]
        logs: dict[str, list[float]] = {name: [] for name in ("incumbent", *running)}
        for blocks in rungs:
            number, day = sum(map(len, found.values())), dice.gauss(0, noise.day)
            shifts = [day + dice.gauss(0, noise.block) for _ in range(blocks)]
            for name in ("incumbent", *running):
                loud = noise.louder.get(name, 1.0)
                base = effects.get(name, 0.0) + dice.gauss(0, noise.own * loud)
                own = [base + shift + dice.gauss(0, noise.run * loud) for shift in shifts]
                logs[name] += own
                found.setdefault(name, []).append(observed(name, number, [math.exp(y) for y in own]))
            lead = {
                name: statistics.fmean(y) - statistics.fmean(logs["incumbent"][: len(y)])
                for name, y in logs.items()
            }
            running = sorted(running, key=lead.__getitem__, reverse=True)[: math.ceil(len(running) / 2)]
    return found


@dataclass(frozen=True)
class Outcome:
    """Shares of explorations with a false "faster", with a true one, and of intervals that hold the ratio."""

    false: float
    true: float
    covered: float


def outcome(
    tries: int, candidates: int, noise: Noise, effects: dict[str, float], rungs: tuple[int, ...] = RUNGS
) -> Outcome:
    """Half of the candidates are of the wanted Python, which the incumbent is not; s0 is the reference."""
    dice = random.Random(5)
    false, true, held = 0, 0, []
    wanted = [f"s{at}" for at in range(2, candidates, 2)]
    for _ in range(tries):
        linked = LinkedStacks(explored(dice, candidates, noise, effects, rungs))
        found = [linked.compare("s0", name, ("s0", name), 0.02) for name in wanted]
        alone = [one.comparison for one in found if one is not None]
        for name, c in zip(wanted, alone, strict=True):
            low, high, truth = c.ratio.low, c.ratio.high, math.exp(effects.get(name, 0.0))
            held.append(low is not None and high is not None and low <= truth <= high)
        faster = {name for name, c in zip(wanted, corrected(alone), strict=True) if c.verdict == "faster"}
        false += bool(faster - effects.keys())
        true += bool(faster & effects.keys())
    return Outcome(false / tries, true / tries, statistics.fmean(held))


FASTER = {"s6": math.log(1.5)}  # of the second batch: only the incumbent links it to s0


def test_a_stack_that_only_others_link_is_found_faster_and_names_them() -> None:
    measured = explored(random.Random(1), 8, Noise(), FASTER)
    found = LinkedStacks(measured).compare("s0", "s6", ("s0", "s6"), 0.02)
    assert found is not None
    assert (found.comparison.verdict, found.through) == ("faster", ("incumbent",))
    assert found.comparison.method == "linked"
    del measured["incumbent"]
    apart = LinkedStacks(measured).compare("s0", "s6", ("s0", "s6"), 0.02)
    assert apart is not None
    assert (apart.comparison.verdict, apart.through) == ("undecided", ())


def test_time_that_a_common_stack_lost_to_others_stretches_the_interval() -> None:
    dice = random.Random(2)

    def at(name: str, session: int, base: float, lost: float = 0.0) -> Observation:
        return observed(name, session, [base * math.exp(dice.gauss(0, 0.002)) for _ in range(4)], lost=lost)

    measured = {
        "a": [at("a", one, 1.0) for one in (1, 2)],
        "b": [at("b", one, 1.1) for one in (3, 4)],
        "c": [*(at("c", one, 1.0) for one in (1, 2)), *(at("c", one, 1.0, lost=0.15) for one in (3, 4))],
    }
    found = LinkedStacks(measured).compare("a", "b", ("a", "b"), 0.02)
    assert found is not None
    assert found.comparison.verdict == "undecided"  # C would have been up to 15 % faster next to B
    assert found.comparison.lost_to_others == (pytest.approx(0.15), 0.0)


@pytest.mark.long
def test_few_explorations_claim_an_effect_that_is_not_there() -> None:
    found = outcome(60, 8, Noise(), {})
    assert found.false <= 0.07
    assert found.covered >= 0.9


def best_claimed_alone(tries: int, candidates: int) -> tuple[float, float]:
    """Shares of explorations without an effect whose best candidate, asked for alone, is called faster.

    With allowance for the others that its sessions measured, and without.
    """
    dice = random.Random(11)
    false, naive = 0, 0
    for _ in range(tries):
        linked = LinkedStacks(explored(dice, candidates, Noise(own=0.0), {}, (6,)))
        found = [linked.compare("incumbent", f"s{at}", ("i", "s"), 0.001) for at in range(candidates)]
        best = max((one for one in found if one is not None), key=lambda one: one.comparison.ratio.value)
        assert best.rivals == 4  # of its batch
        (claimed,) = corrected([best.comparison], candidates)
        false += claimed.verdict == "faster"
        naive += best.comparison.verdict == "faster"
    return false / tries, naive / tries


@pytest.mark.parametrize("cases", long_but(1, [15, 300]))
def test_the_best_of_an_exploration_asked_for_alone_is_claimed_as_one_of_many(cases: int) -> None:
    false, naive = best_claimed_alone(cases, 8)
    assert false <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / cases)
    assert naive > 0.05  # one comparison would be wrong in 0.025


def test_a_pair_is_one_of_as_many_as_its_sessions_measured() -> None:
    crowd = {f"s{at}": [observed(f"s{at}", 1, [1.0, 1.1])] for at in range(5)}
    crowd["s0"].append(observed("s0", 2, [1.0, 1.1]))
    crowd["apart"] = [observed("apart", 2, [1.0, 1.1])]
    linked = LinkedStacks(crowd)
    pairs = [linked.compare("s0", name, ("a", "b"), 0.02) for name in ("s1", "apart")]
    assert [one.rivals for one in pairs if one is not None] == [4, 1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("candidates", "noise", "rungs"),
    [
        (8, Noise(), RUNGS),
        (8, Noise(own=0.0), RUNGS),
        (8, Noise(own=0.03), RUNGS),
        (16, Noise(), RUNGS),
        (16, Noise(), (3, 2)),
        (8, Noise(own=0.0), (3,)),  # one session each: the blocks are the unit
        (8, Noise(louder={"s2": 3.0, "s6": 3.0}), RUNGS),
    ],
    ids=str,
)
def test_claims_through_common_stacks_are_wrong_no_more_often_than_stated(
    candidates: int, noise: Noise, rungs: tuple[int, ...]
) -> None:
    """2.5 % of families may claim a false "faster", and 95 % of intervals hold, ± 3 standard errors."""
    found = outcome(600, candidates, noise, {}, rungs)
    assert found.false <= 0.045
    assert found.covered >= 0.925


@pytest.mark.long
def test_a_reference_three_times_as_loud_as_the_others_is_the_worst_case() -> None:
    """Few runs show how loud it is: 6 % of families claim a false "faster", and 91 % of intervals hold."""
    found = outcome(600, 8, Noise(louder={"s0": 3.0, "s4": 3.0}), {})
    assert found.false <= 0.085
    assert found.covered >= 0.89


@pytest.mark.long
@pytest.mark.parametrize("run", [0.02, 0.08])
def test_an_effect_of_one_half_is_found_through_the_incumbent(run: float) -> None:
    found = outcome(300, 8, Noise(own=0.03, run=run), FASTER)
    assert found.true >= 0.9
    assert found.covered >= 0.925

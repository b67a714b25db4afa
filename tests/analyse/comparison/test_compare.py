"""The first verdict: what it rests on, what it says, and that it is right as often as stated."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from assay import store
from assay.analyse.comparison.verdict import decide
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.points.groups import group
from assay.analyse.points.ratio import ratio
from assay.analyse.statistics import intervals
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.cli.commands import COMMANDS
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.records import Comparison, Estimate, Measurement, Result, RunState, to_plain
from assay.view import terminal, verdicts
from conftest import long_but, long_rows_but, tries
from stated_runs import metrics, result, side

MARGIN = 0.02


def verdict(a: Sequence[Result], b: Sequence[Result], **options: object) -> Comparison:
    """The one comparison of two sides that share one point."""
    defaults = {"margin": MARGIN, "names": ("A", "B"), "metrics": metrics()}
    found = compare_with_doubts(a, b, **{**defaults, **options}).comparisons  # type: ignore[arg-type]
    assert len(found) == 1
    return found[0]


def test_the_unpaired_interval_is_that_of_scipys_welch_test_on_logarithms() -> None:
    a, b = [100.0, 103.0, 99.0, 101.5], [96.0, 97.5, 99.5, 99.0]
    theirs = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(0.95)
    found = verdict(side(a, session="s1"), side(b, system="b", session="s2"))
    assert found.method == "welch"
    assert (found.ratio.low, found.ratio.high) == pytest.approx((math.exp(theirs.low), math.exp(theirs.high)))
    assert found.ratio.value == pytest.approx(stats.gmean(b) / stats.gmean(a))


def test_the_paired_interval_is_that_of_scipys_paired_test_on_logarithms() -> None:
    a, b = [100.0, 110.0, 120.0, 130.0], [99.0, 108.0, 121.0, 127.0]
    theirs = stats.ttest_rel(np.log(b), np.log(a)).confidence_interval(0.95)
    found = verdict(side(a), side(b, system="b"))
    assert found.method == "paired"
    assert (found.ratio.low, found.ratio.high) == pytest.approx((math.exp(theirs.low), math.exp(theirs.high)))
    assert found.n == (4, 4)


def test_the_smallest_visible_difference_is_the_half_width_of_the_interval() -> None:
    found = verdict(side([100, 102, 101], session="s1"), side([100, 103, 99], system="b", session="s2"))
    assert found.ratio.high is not None
    assert found.smallest_visible == pytest.approx(found.ratio.high / found.ratio.value - 1)


@pytest.mark.parametrize(
    "changed",
    [{"session": "2026-03-02T100000Z"}, {"interleaved": False}, {"suite_digest": "other"}],
    ids=["another session", "not interleaved", "another suite"],
)
def test_sides_that_did_not_share_shuffled_blocks_are_not_paired(changed: dict[str, object]) -> None:
    a, b = [100.0, 110.0, 120.0], [101.0, 111.0, 121.0]
    found = verdict(side(a), side(b, system="b", **changed))
    assert found.method == "welch"
    assert "not-interleaved" in {doubt.code for doubt in found.doubts}


def test_a_run_repeated_after_its_block_is_no_pair_and_counts_unpaired() -> None:
    a, b = side([100.0, 110.0, 120.0]), side([101.0, 111.0, 121.0], system="b")
    b[0] = replace(b[0], run=replace(b[0].run, outside_block=True))
    found = verdict(a, b)
    assert (found.method, found.n) == ("welch", (3, 3))
    assert "outside-block" in {doubt.code for doubt in found.doubts}


def test_the_method_is_never_chosen_by_width() -> None:
    against = side([100.0, 90.0, 110.0, 95.0])
    paired_wider = verdict(against, side([90.0, 100.0, 95.0, 110.0], system="b"))
    paired_narrower = verdict(against, side([100.1, 90.2, 110.0, 95.1], system="b"))
    assert paired_wider.method == paired_narrower.method == "paired"
    assert paired_wider.smallest_visible is not None
    assert paired_wider.smallest_visible > 10 * (paired_narrower.smallest_visible or 1)


def test_a_block_that_lacks_a_side_is_left_out_of_the_pairs_and_counted() -> None:
    b = side([101.0, 112.0, 119.0, 131.0], system="b")
    b[1] = result(None, system="b", block=2, state=RunState.FAILED, cause="rank 0 exited 1")
    found = verdict(side([100.0, 110.0, 120.0, 130.0]), b)
    assert found.n == (3, 3)
    assert found.mean_a == pytest.approx(stats.gmean([100, 120, 130]))
    assert {"dropped-blocks", "failed-runs-left-out"} <= {doubt.code for doubt in found.doubts}


def test_pairs_are_matched_by_block_whatever_the_order_of_the_results() -> None:
    a, b = side([100.0, 110.0, 120.0]), side([101.0, 112.0, 119.0], system="b")
    assert verdict(a, b) == verdict(a, [b[2], b[0], b[1]])


def test_blocks_of_several_shared_sessions_are_pairs_of_their_own_session() -> None:
    def both(values: Sequence[float], system: str) -> list[Result]:
        return side(values[:2], system=system, session="s1") + side(values[2:], system=system, session="s2")

    found = verdict(both([100.03, 101.1, 200.2, 202], "a"), both([99, 101.2, 198.1, 201], "b"))
    assert (found.method, found.n) == ("paired", (4, 4))
    assert found.smallest_visible is not None
    assert found.smallest_visible < 0.02


def test_one_run_a_side_is_undecided_without_an_interval_and_says_why() -> None:
    found = verdict(side([100.0]), side([50.0], system="b"))
    assert (found.verdict, found.ratio.low, found.ratio.high, found.method) == ("undecided", None, None, "")
    assert found.ratio.value == pytest.approx(0.5)
    assert "one " in found.reason
    assert found.smallest_visible is None


def test_one_run_on_one_side_only_is_undecided_too() -> None:
    found = verdict(side([100.0], session="s1"), side([50.0, 51.0, 49.0], system="b", session="s2"))
    assert found.verdict == "undecided"
    assert "A has only one run" in found.reason


@pytest.mark.parametrize("session", ["2026-03-01T100000Z", "another"], ids=["paired", "welch"])
def test_values_without_any_spread_give_no_verdict(session: str) -> None:
    found = verdict(side([10.0] * 5), side([11.0] * 5, system="b", session=session))
    assert found.verdict == "undecided"
    assert found.ratio.low is None
    assert "resolution" in found.reason
    assert "identical-values" in {doubt.code for doubt in found.doubts}


def test_equal_seeds_that_give_equal_values_in_every_block_are_equivalent() -> None:
    losses = [5.12345678, 6.87654321, 7.19283746]
    found = verdict(side(losses), side(losses, system="b"))
    assert found.verdict == "equivalent"
    assert (found.ratio.low, found.ratio.high) == pytest.approx((1.0, 1.0), abs=1e-7)


@pytest.mark.parametrize("values", [[10.0, 11.0], [10.0, 11.0, 10.0], [1 / 10, 1 / 11, 1 / 10]])
def test_equal_values_of_a_coarse_timer_in_every_block_decide_nothing(values: list[float]) -> None:
    """Two or three pairs of 10 and 11 ms, or the rates of such times: a difference of 3 % can't show."""
    found = verdict(side(values), side(values, system="b"))
    assert found.verdict == "undecided"
    assert found.smallest_visible is not None
    assert found.smallest_visible > 0.05
    [sentence] = found.allows_for
    assert sentence.startswith("The values come in steps of 10 %, which hide how far the runs differ")
    assert sentence in " ".join(terminal.plain(terminal.shown(verdicts.verdicts([found]))).split())


def test_one_other_value_among_coarse_ones_is_not_known_better_than_the_step() -> None:
    """19 of 20 runs print 10 ms on each side: B may be 5 % slower, or faster, in all of them."""
    a, b = [10.0] * 19 + [11.0], [11.0] + [10.0] * 19
    found = verdict(side(a, interleaved=False), side(b, system="b", interleaved=False))
    assert (found.verdict, found.runs_needed) == ("undecided", None)
    assert found.shift == pytest.approx(0.1, abs=0.01)


def test_one_side_of_a_single_value_has_no_interval_however_fine_the_other_sides_digits() -> None:
    """The other side's step of 0.01 says nothing about 10.3, which was called equivalent to 10.38."""
    finer = [10.38, 10.39, 10.38, 10.37, 10.38]
    for blocks in (True, False):
        a, b = side([10.3] * 5, interleaved=blocks), side(finer, system="b", interleaved=blocks)
        for found in (verdict(a, b, margin=0.01), verdict(b, a, margin=0.01)):
            assert (found.verdict, found.ratio.low, found.runs_needed) == ("undecided", None, None)
            assert "gave the same value" in found.reason
    sessions = [run for at in range(3) for run in side(finer[at : at + 2], system="b", session=f"s{at}")]
    assert verdict(side([10.3] * 5, session="s9"), sessions).ratio.low is None


def test_a_side_whose_values_repeat_has_its_own_step() -> None:
    a, b = [10.0] * 9 + [9.5], [10.13, 10.11, 10.12, 10.14, 10.12, 10.1, 10.13, 10.12, 10.11, 10.12]
    of_a, of_b = hidden_by_rounding(a, b).steps
    assert of_a == pytest.approx(0.05, rel=0.06)
    assert of_b == pytest.approx(0.001, rel=0.02)
    found = verdict(side(a, interleaved=False), side(b, system="b", interleaved=False))
    assert found.verdict == "undecided"


@pytest.mark.parametrize(
    ("n", "ticks", "noise", "ratio", "margin", "paired"),
    [
        ((4, 7), (0.5, 0.01), 0.002, 1.02, 0.02, False),
        ((6, 6), (0.5, 0.01), 0.002, 1.02, 0.02, True),
        ((5, 5), (0.1, 0.01), 0.001, 1.01, 0.01, False),
        ((5, 5), (0.1, 0.01), 0.001, 1.0, 0.005, False),
        ((12, 12), (0.5, 0.1), 0.005, 1.02, 0.02, False),
        ((10, 10), (0.5, 0.01), 0.01, 1.02, 0.02, False),
    ],
)
def test_a_side_with_coarser_ticks_than_the_other_hides_no_difference(
    n: tuple[int, int],
    ticks: tuple[float, float],
    noise: float,
    ratio: float,
    margin: float,
    paired: bool,
) -> None:
    """Times around 10 at any place between two ticks: up to 43 % were called equivalent."""
    rng, sets, equivalent, wrong = np.random.default_rng(n[1]), tries(1000), 0, 0
    for _ in range(sets):
        here = 10.3 + (rng.random() - 0.5) * ticks[0]
        a, b = (
            [round(x, 2) for x in np.round(level * np.exp(noise * rng.normal(size=k)) / tick) * tick]
            for level, k, tick in zip((here, here * ratio), n, ticks, strict=True)
        )
        logs, unseen = ([math.log(x) for x in a], [math.log(x) for x in b]), hidden_by_rounding(a, b)
        found = (
            intervals.paired(list(zip(*logs, strict=True)), 0.95, unseen)
            if paired
            else intervals.welch(*logs, 0.95, unseen)
        )
        if found.half is not None:
            equivalent += ratio > 1 and abs(found.centre) + found.half <= math.log1p(margin)
            wrong += found.centre + found.half < 0 or (ratio == 1 and found.centre > found.half)
    assert equivalent / sets <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / sets)
    assert wrong / sets <= 0.05


def test_digits_that_are_finer_than_the_spread_change_nothing() -> None:
    a, b = [100.0, 103.0, 99.0, 101.5], [96.0, 97.5, 99.5, 99.0]
    found = verdict(side(a, session="s1"), side(b, system="b", session="s2"))
    assert (found.allows_for, found.shift) == ((), 0.0)


def test_rounding_of_logarithms_is_no_spread() -> None:
    found = verdict(
        side([0.1 * 3] * 4, session="s1"), side([0.30000000000000004] * 4, system="b", session="s2")
    )
    assert found.verdict == "undecided"


def test_a_value_that_is_not_above_zero_has_no_interval_and_says_so() -> None:
    found = verdict(side([1.0, 0.0, 2.0]), side([1.0, 1.0, 2.0], system="b"))
    assert (found.verdict, found.ratio.low) == ("undecided", None)
    assert "not above 0" in found.reason


def test_a_mean_of_zero_has_no_ratio_and_is_named_as_left_out() -> None:
    a, b = side([0.0, 0.0]), side([1.0, 2.0], system="b")
    outcome = compare_with_doubts(a, b, margin=MARGIN, names=("A", "B"), metrics=metrics())
    assert outcome.comparisons == ()
    [(point, why)] = outcome.left_out
    assert (point.metric, why) == ("throughput", "a mean that is not above 0 has no ratio")


def test_failed_runs_never_count_and_never_as_a_number() -> None:
    bad = side([1.0, 1.0, 1.0], system="b", problems=["loss became nan"])
    outcome = compare_with_doubts(side([100.0] * 3), bad, margin=MARGIN, names=("A", "B"), metrics=metrics())
    assert outcome.comparisons == ()
    [(_, why)] = outcome.left_out
    assert why == "B has no such run"


def test_a_run_on_both_sides_is_an_error() -> None:
    a = side([100.0, 101.0])
    with pytest.raises(InputError, match="on both sides"):
        compare_with_doubts(a, a[:1], margin=MARGIN, names=("A", "B"), metrics=metrics())


@pytest.mark.parametrize(
    ("low", "high", "better", "expected"),
    [
        (0.99, 1.01, "higher", "equivalent"),
        (1 / 1.02, 1.02, "higher", "equivalent"),
        (1.001, 1.019, "higher", "equivalent"),
        (1.001, 1.021, "higher", "faster"),
        (1.03, 1.05, "higher", "faster"),
        (1.03, 1.05, "lower", "slower"),
        (0.90, 0.95, "higher", "slower"),
        (0.90, 0.95, "lower", "faster"),
        (0.979, 0.999, "lower", "faster"),
        (0.97, 1.05, "higher", "undecided"),
        (0.999, 1.03, "higher", "undecided"),
        (0.90, 0.95, None, "undecided"),
        (0.99, 1.01, None, "equivalent"),
    ],
)
def test_the_verdict_follows_from_the_interval_and_the_margin(
    low: float, high: float, better: str | None, expected: str
) -> None:
    found, reason = decide(Estimate(1.0, low, high, 10, ""), MARGIN, better)  # type: ignore[arg-type]
    assert found == expected
    assert "margin" in reason or "declared" in reason


def test_reasons_say_whether_the_difference_is_beyond_the_margin() -> None:
    _, beyond = decide(Estimate(1.04, 1.03, 1.05, 10, ""), MARGIN, "higher")
    _, perhaps = decide(Estimate(1.02, 1.005, 1.05, 10, ""), MARGIN, "higher")
    assert "by more than the margin" in beyond
    assert "possibly within" in perhaps


def test_the_same_runs_give_the_same_verdict_bit_for_bit() -> None:
    a, b = side([100.0, 103.0, 99.0]), side([101.0, 99.0, 98.0], system="b")
    assert verdict(a, b) == verdict(list(a), list(b))


def test_units_that_differ_by_a_prefix_are_compared_and_others_are_not() -> None:
    a = side([11000.0, 11100.0], unit="MB/s")
    assert verdict(a, side([11.0, 11.1], system="b", unit="GB/s")).ratio.value == pytest.approx(1.0)
    assert (
        compare_with_doubts(
            a, side([1.0, 2.0], system="b", unit="s"), margin=MARGIN, names=("A", "B"), metrics=metrics()
        ).comparisons
        == ()
    )


def test_labels_swept_parameters_shape_and_benchmark_tell_points_apart() -> None:
    a = side([1.0, 2.0])
    for other in ({"labels": {"size": 8}}, {"varied": {"size": 8}}, {"shape": "2x1"}, {"benchmark": "other"}):
        assert (
            compare_with_doubts(
                a, side([1.0, 2.0], system="b", **other), margin=MARGIN, names=("A", "B"), metrics=metrics()
            ).comparisons
            == ()
        )


def test_a_metric_printed_twice_by_a_run_counts_once_as_its_geometric_mean() -> None:
    again = Measurement("throughput", 400.0, "images/s", {}, "rank-0.log", 9)
    [found] = group([result(100.0, more=[again])], metrics()).values()
    assert found.values == pytest.approx([200.0])


def test_points_come_by_benchmark_then_declared_metric_then_size() -> None:
    extra = [Measurement(name, 1.0, "s", {}, "rank-0.log", 9) for name in ("aaa", "zzz")]
    runs = [
        result(1.0, benchmark=benchmark, shape=shape, labels={"size": size}, block=block, more=extra)
        for block, (benchmark, shape, size) in enumerate(
            product(("z", "a"), ("16x1", "2x1"), (1024, 64)), start=1
        )
    ]
    points = [found.point for found in group(runs, metrics()).values()]
    assert [(p.benchmark, p.metric, p.shape, p.labels.get("size")) for p in points][:6] == [
        ("a", "throughput", "2x1", 64),
        ("a", "throughput", "2x1", 1024),
        ("a", "throughput", "16x1", 64),
        ("a", "throughput", "16x1", 1024),
        ("a", "aaa", "2x1", None),
        ("a", "aaa", "16x1", None),
    ]


Sampler = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def _normal(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return np.log(100 + rng.normal(0, 2, size))


def _lognormal(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return rng.normal(0, 0.3, size)


def _t3(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return 0.01 * rng.standard_t(3, size)


def _inside(interval: intervals.LogInterval, truth: float) -> bool:
    assert interval.half is not None
    return abs(interval.centre - truth) <= interval.half


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("sample", [_normal, _lognormal, _t3], ids=["normal", "lognormal", "t3"])
def test_the_interval_covers_the_true_ratio_in_94_to_985_of_1000(sample: Sampler, n: int) -> None:
    rng, sets = np.random.default_rng(20260301 + n), 8000
    a, b = sample(rng, (sets, n)).tolist(), sample(rng, (sets, n)).tolist()
    covered = sum(_inside(intervals.welch(x, y), 0.0) for x, y in zip(a, b, strict=True)) / sets
    assert 0.94 <= covered <= 0.985


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize(("few", "many"), [(2, 10), (2, 50), (3, 10), (4, 5)])
def test_unequal_numbers_keep_94_per_cent_whichever_side_is_noisier(
    few: int, many: int, spread: float
) -> None:
    rng, sets = np.random.default_rng(7), tries(3000)
    a, b = spread * rng.normal(size=(sets, few)), 0.01 * rng.normal(size=(sets, many))
    covered = np.mean(
        [_inside(intervals.welch(x, y), 0.0) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    )
    assert covered >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / sets)


def _normal_runs(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return 0.01 * rng.normal(size=size)


def _a_tenth_slow(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return 0.003 * rng.normal(size=size) - 0.08 * (rng.random(size) < 0.1)


def _long_tail(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return -0.01 * rng.exponential(size=size)


@pytest.mark.parametrize(
    ("few", "many"),
    long_rows_but(2, [(10, 50), (5, 200), (2, 50), (3, 20), (5, 50), (10, 200), (20, 100)]),
)
@pytest.mark.parametrize("sample", [_normal_runs, _a_tenth_slow, _long_tail], ids=["normal", "slow", "tail"])
def test_few_runs_without_a_slow_one_do_not_pass_for_quiet_next_to_many(
    sample: Sampler, few: int, many: int
) -> None:
    rng, sets = np.random.default_rng(few * many), tries(3000)
    a, b = sample(rng, (sets, few)).tolist(), sample(rng, (sets, many)).tolist()
    covered = np.mean([_inside(intervals.welch(x, y), 0.0) for x, y in zip(a, b, strict=True)])
    assert covered >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / sets)


@pytest.mark.parametrize(
    ("n", "size", "days", "noise", "paired"),
    long_rows_but(
        3,
        [
            (3, 10.3, 0.05, 0.01, True),  # of 1,000 such sets, 248 were called equivalent
            (10, 10.3, 0.0, 0.01, True),
            (20, 20.3, 0.0, 0.005, False),
            (3, 10.0, 0.1, 0.02, True),
            (3, 20.3, 0.03, 0.01, True),
            (5, 20.3, 0.03, 0.01, True),
            (40, 10.3, 0.0, 0.01, False),
        ],
    ),
)
def test_a_coarse_timer_hides_no_difference(
    n: int, size: float, days: float, noise: float, paired: bool
) -> None:
    """Milliseconds on a grid of 1 ms, at any place between two ticks; B is 3 % slower, the margin is 2 %."""
    rng, sets, wrong = np.random.default_rng(n), tries(3000), 0
    for _ in range(sets):
        day = days * rng.normal(size=n)
        here = size + rng.random()
        a = np.round(here * np.exp(day + noise * rng.normal(size=n))).tolist()
        b = np.round(1.03 * here * np.exp(day + noise * rng.normal(size=n))).tolist()
        logs = [math.log(x) for x in a], [math.log(x) for x in b]
        unseen = hidden_by_rounding(a, b)
        found = (
            intervals.paired(list(zip(*logs, strict=True)), 0.95, unseen)
            if paired
            else intervals.welch(*logs, 0.95, unseen)
        )
        wrong += found.half is not None and abs(found.centre) + found.half <= math.log1p(MARGIN)
    assert wrong / sets <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / sets)


def _in_order(logs: Sequence[float], system: str, session: str) -> list[Result]:
    return side([100 * math.exp(x) for x in logs], system=system, session=session)


def _autocorrelated(rng: np.random.Generator, correlation: float, n: int) -> list[float]:
    runs = rng.normal(size=n)
    for at in range(1, n):
        runs[at] = correlation * runs[at - 1] + math.sqrt(1 - correlation**2) * runs[at]
    return (0.009 * runs).tolist()


@pytest.mark.parametrize(
    ("correlation", "n", "most"), long_rows_but(1, [(0.5, 10, 0.055), (0.0, 10, 0.025), (0.5, 40, 0.03)])
)
def test_runs_that_resemble_each_other_are_seldom_called_equivalent(
    correlation: float, n: int, most: float
) -> None:
    """Sides run one after the other; B is faster by the margin. It was 13 % with a correlation of 0.5."""
    rng, sets, wrong = np.random.default_rng(n), tries(1500), 0
    for _ in range(sets):
        a = _in_order(_autocorrelated(rng, correlation, n), "a", "s1")
        b = _in_order([math.log1p(MARGIN) + x for x in _autocorrelated(rng, correlation, n)], "b", "s2")
        wrong += _equivalent(a, b)
    assert wrong / sets <= most + 3 * math.sqrt(most * (1 - most) / sets)


def _equivalent(a: Sequence[Result], b: Sequence[Result]) -> bool:
    ([of_a], [of_b]) = (list(group(side, metrics()).values()) for side in (a, b))
    return decide(ratio(of_a, of_b).estimate, MARGIN, "higher")[0] == "equivalent"


def test_a_drift_that_is_found_widens_the_interval_by_its_size() -> None:
    rising = [100.0, 100.41, 100.78, 101.23, 101.59, 102.02, 102.41]
    still = [101.03, 100.91, 101.1, 100.97, 101.04, 100.93, 101.02]
    found = verdict(side(still, session="s1"), side(rising, system="b", session="s2"))
    assert "drift" in {doubt.code for doubt in found.doubts}
    assert found.shift == pytest.approx(0.024, abs=0.001)
    assert (found.verdict, found.runs_needed) == ("undecided", None)
    assert found.allows_for[0].startswith(
        "B rose by 2.4 % over its runs, so the interval is wider by as much"
    )
    assert found.allows_for[1].startswith("Successive runs may resemble each other, so the 14 runs count as ")


def _in_turn(places: Sequence[int], values: Sequence[float], system: str) -> list[Result]:
    return [
        result(value, system=system, block=place, session="s1", interleaved=False)
        for place, value in zip(places, values, strict=True)
    ]


ABBA = ([1, 4, 5, 8, 9, 12, 13, 16], [2, 3, 6, 7, 10, 11, 14, 15])


def test_a_drift_of_both_sides_that_the_order_cancels_does_not_widen_the_interval() -> None:
    drifting = [[100 + 0.1 * place + 0.01 * (place % 3) for place in side] for side in ABBA]
    balanced = verdict(_in_turn(ABBA[0], drifting[0], "a"), _in_turn(ABBA[1], drifting[1], "b"))
    assert "drift" in {doubt.code for doubt in balanced.doubts}
    assert balanced.shift == pytest.approx(0.0, abs=1e-5)
    assert not any("over its runs" in sentence for sentence in balanced.allows_for)

    later = [list(range(1, 16, 2)), list(range(2, 17, 2))]
    drifting = [[100 + 0.1 * place + 0.01 * (place % 3) for place in side] for side in later]
    alternating = verdict(_in_turn(later[0], drifting[0], "a"), _in_turn(later[1], drifting[1], "b"))
    assert alternating.shift == pytest.approx(0.001, rel=0.05)
    assert "wider by 0.099 %, because of the order in which both sides ran" in alternating.allows_for[0]


@pytest.mark.parametrize("truth", [1.0, 1 + MARGIN])
def test_under_a_common_drift_the_order_abba_errs_as_seldom_as_without(truth: float) -> None:
    """A drift of five spreads up and down; all of 400 comparisons were undecided."""
    rng, sets, equivalent, called = np.random.default_rng(8), tries(200), 0, 0
    for _ in range(sets):
        a, b = (
            [level * math.exp(0.002 * (rng.normal() + 10 * place / 17 - 5)) for place in side]
            for level, side in zip((100, 100 * truth), ABBA, strict=True)
        )
        found = verdict(_in_turn(ABBA[0], a, "a"), _in_turn(ABBA[1], b, "b"))
        equivalent += found.verdict == "equivalent"
        called += found.verdict in ("faster", "slower")
    if truth > 1:
        assert equivalent / sets <= 0.025
    else:
        assert called / sets <= 0.05
        assert equivalent / sets >= 0.2


def test_imported_runs_of_unknown_order_and_runs_in_blocks_are_taken_as_independent() -> None:
    rising = [100.0, 100.41, 100.78, 101.23, 101.59, 102.02, 102.41]
    still = [101.03, 100.91, 101.1, 100.97, 101.04, 100.93, 101.02]
    imported = verdict(side(still, source="csv"), side(rising, system="b", source="csv"))
    blocks = verdict(side(still), side(rising, system="b"))
    for found in (imported, blocks):
        assert (found.allows_for, found.shift) == ((), 0.0)


def test_of_unequal_numbers_degrees_are_welchs_where_the_few_are_noisier() -> None:
    many = [0.0, 0.01, -0.01, 0.02, -0.02, 0.0]
    quiet, noisy = intervals.welch([0.0, 0.001], many), intervals.welch([0.0, 1.0], many)
    usual = stats.ttest_ind(many, [0.0, 1.0], equal_var=False)
    assert noisy.degrees == pytest.approx(usual.df)
    assert quiet.degrees is not None
    assert quiet.degrees < 1.4 < stats.ttest_ind(many, [0.0, 0.001], equal_var=False).df


@pytest.mark.parametrize(
    "n", [3, pytest.param(5, marks=pytest.mark.long), pytest.param(10, marks=pytest.mark.long)]
)
def test_no_difference_is_called_faster_or_slower_in_at_most_55_of_1000(n: int) -> None:
    """Through the whole comparison; a margin of nearly nothing, so that only the interval protects."""
    rng, sets, called = np.random.default_rng(n), tries(1500), 0
    for values in np.exp(rng.normal(0, 0.02, (sets, 2, n))).tolist():
        found = verdict(side(values[0]), side(values[1], system="b", session="s2"), margin=1e-6)
        called += found.verdict in ("faster", "slower")
    three_errors = 3 * math.sqrt(0.05 * 0.95 / sets)
    assert called / sets <= 0.05 + three_errors
    assert called, "a test at 5 % that never errs is not one at 5 %"


@pytest.mark.long
def test_a_difference_of_the_margin_is_called_equivalent_in_at_most_55_of_1000() -> None:
    rng, sets, wrong = np.random.default_rng(3), 1500, 0
    for values in (rng.normal(0, 0.004, (sets, 2, 5))).tolist():
        a, b = np.exp(values[0]).tolist(), (1.02 * np.exp(values[1])).tolist()
        wrong += verdict(side(a), side(b, system="b", session="s2")).verdict == "equivalent"
    assert wrong / sets <= 0.055


@pytest.mark.slow
@pytest.mark.parametrize("n", long_but(1, [5, 3, 10]))
def test_under_drift_blocks_hold_what_back_to_back_runs_do_not(n: int) -> None:
    """A drift of one spread up and down over the session, which the shuffle spreads over both sides."""
    rng, sets = np.random.default_rng(n), 20_000
    drift = np.linspace(-1, 1, 2 * n)
    noise = rng.normal(size=(sets, 2 * n)) + drift
    back_to_back = [intervals.welch(row[:n], row[n:]) for row in noise.tolist()]
    first = rng.integers(0, 2, size=(sets, n)).astype(bool)
    left, right = noise[:, 0::2], noise[:, 1::2]
    a, b = np.where(first, left, right), np.where(first, right, left)
    blocks = [
        intervals.paired(list(zip(x, y, strict=True))) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    covered_blocks = sum(_inside(interval, 0.0) for interval in blocks) / sets
    covered_back_to_back = sum(_inside(interval, 0.0) for interval in back_to_back) / sets
    assert 0.94 <= covered_blocks <= 0.985
    assert covered_back_to_back < 0.90


def _stored(tmp_path: object, runs: Sequence[Result]) -> list[str]:
    store.update(tmp_path, runs)  # type: ignore[arg-type]
    return ["--runs", str(tmp_path)]


def test_the_command_prints_the_documented_json(tmp_path: object) -> None:
    where = _stored(tmp_path, side([100.0, 101.0, 99.0]) + side([100.2, 101.1, 99.1], system="b"))
    ran = CliRunner().invoke(COMMANDS["compare"], ["suite:a", "suite:b", "--json", *where])
    document = json.loads(ran.stdout)
    assert document["schema"] == "assay.compare/1"
    [found] = document["comparisons"]
    assert found["points"] == {"benchmark": "train", "shape": "1x1", "labels": {}}
    assert found["n"] == [3, 3]
    assert found["ratio"]["low"] < found["ratio"]["value"] < found["ratio"]["high"]
    assert (found["metric"], found["unit"], found["margin"], found["verdict"]) == (
        "throughput", "images/s", 0.02, "equivalent",
    )  # fmt: skip
    assert ran.exit_code == EXIT_OK


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([100.0, 101.0, 99.0], EXIT_OK),
        ([90.0, 91.0, 89.0], EXIT_WORSE),
        ([100.0, 70.0, 130.0], EXIT_UNDECIDED),
    ],
)
def test_the_exit_code_tells_the_verdict(
    tmp_path: object, values: list[float], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.read.metrics", metrics())
    where = _stored(tmp_path, side([100.1, 101.0, 99.1]) + side(values, system="b"))
    ran = CliRunner().invoke(COMMANDS["compare"], ["suite:a", "suite:b", *where])
    assert ran.exit_code == code, ran.output


def test_one_reference_holds_its_systems_against_the_first(tmp_path: object) -> None:
    where = _stored(tmp_path, side([100.0, 101.0, 99.0]) + side([100.2, 101.1, 99.1], system="b"))
    ran = CliRunner().invoke(COMMANDS["compare"], ["suite", *where])
    assert "b compared with a" in ran.output


def test_a_side_of_several_systems_is_refused_with_a_name_to_type(tmp_path: object) -> None:
    where = _stored(tmp_path, side([1.0, 2.0]) + side([1.0, 2.0], system="b"))
    ran = CliRunner().invoke(COMMANDS["compare"], ["suite:a", "suite", *where])
    assert isinstance(ran.exception, InputError)
    assert "suite:a" in str(ran.exception)


def test_nothing_in_common_says_what_failed(tmp_path: object) -> None:
    failed = side([None, None], system="b", state=RunState.FAILED, cause="rank 0 exited 127")
    where = _stored(tmp_path, side([1.0, 2.0]) + failed)
    ran = CliRunner().invoke(COMMANDS["compare"], ["suite:a", "suite:b", *where])
    assert ran.exit_code == 3
    assert "2 of 2 runs gave no result (rank 0 exited 127)" in " ".join(ran.output.split())


@pytest.mark.parametrize("margin", ["0", "100%", "-2%", "a lot"])
def test_a_margin_that_is_none_is_refused(tmp_path: object, margin: str) -> None:
    ran = CliRunner().invoke(COMMANDS["compare"], ["a", "b", "--margin", margin, "--runs", str(tmp_path)])
    assert ran.exit_code == 2


def test_figures_too_far_apart_for_an_interval_in_numbers_are_undecided_and_written() -> None:
    a = side([1.0, 1e80], system="a", interleaved=False)
    b = side([1.0, 1.1], system="b", interleaved=False)
    [found] = compare_with_doubts(a, b, margin=0.02, names=("a", "b"), metrics=metrics()).comparisons
    assert found.verdict == "undecided"
    assert (found.ratio.low, found.ratio.high, found.smallest_visible) == (None, None, None)
    assert "exceeds any number" in found.reason
    assert json.dumps(to_plain(found), allow_nan=False)


def test_a_ratio_with_a_zero_on_one_side_is_one_of_arithmetic_means_on_both() -> None:
    a, b = [10.0, 20.0, 30.0, 40.0, 50.0], [0.0, 20.0, 30.0, 40.0, 50.0]
    found = verdict(side(a, interleaved=False), side(b, system="b", interleaved=False))
    assert (found.mean_a, found.mean_b) == (30.0, 28.0)
    assert found.ratio.value == pytest.approx(28 / 30)
    assert found.verdict == "undecided"
    assert "the means and their ratio are arithmetic" in found.reason

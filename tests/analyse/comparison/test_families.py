"""Claims made together: Holm's verdicts, intervals that all hold, and what needs no correction."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from assay.analyse.comparison.families import corrected
from assay.analyse.comparison.verdict import decide, gate_verdict
from assay.analyse.statistics.intervals import LogInterval, paired
from assay.records import Comparison, Estimate, Family, Point
from assay.view import figures
from assay.view.terminal import plain, shown
from assay.view.verdicts import verdict_table, verdicts
from conftest import long_but, tries

MARGIN = 0.02
POINT = Point("train", "1x1", "throughput", "images/s", "higher", {})


def claim(interval: LogInterval, margin: float = MARGIN) -> Comparison:
    """A comparison of pairs with this interval."""
    ratio = interval.estimate("")
    verdict, reason = decide(ratio, margin, "higher")
    n = (interval.n, interval.n)
    visible = None if interval.half is None else math.expm1(interval.half)
    return Comparison(
        POINT, "A", "B", 1.0, ratio.value, ratio, n, "paired", margin, verdict, reason, visible,
        error=interval.error, degrees=interval.degrees,
    )  # fmt: skip


def normal(centre: float, error: float, n: int = 11) -> LogInterval:
    """An interval of n pairs with this mean and standard error."""
    return LogInterval(centre, 2.228 * error, n, error=error, degrees=n - 1)


def test_a_claim_that_stands_alone_is_left_as_it_is() -> None:
    alone = claim(normal(0.05, 0.01))
    assert corrected([alone]) == (alone,)


def test_a_claim_chosen_among_many_has_to_be_as_sure_as_each_of_them_and_keeps_its_interval() -> None:
    clear, barely = claim(normal(0.06, 0.01)), claim(normal(0.0277, 0.01))
    (found,) = corrected([clear], out_of=20)
    assert found.verdict == "faster"
    assert found.family is not None
    assert found.family.size == 20
    level = (0.06 - math.log(found.family.ratio.low or 0)) / 0.01
    assert level == pytest.approx(stats.t.isf(0.025 / 20, 10), rel=1e-6)
    assert "one of 20 comparisons" in found.reason
    assert [corrected([barely], out_of=size)[0].verdict for size in (1, 20)] == ["faster", "undecided"]


def test_equivalent_rests_on_its_own_interval_whatever_is_claimed_beside_it() -> None:
    certain = [claim(normal(0.005, 0.006)) for _ in range(5)]
    noisy = claim(normal(0.0, 0.3))
    assert {c.verdict for c in certain} == {"equivalent"}
    *found, last = corrected([*certain, noisy])
    assert {c.verdict for c in found} == {"equivalent"}
    assert [c.deciding for c in found] == [c.ratio for c in certain]
    assert last.verdict == "undecided"


@pytest.mark.long
def test_intervals_of_equivalent_claims_hold_together_too() -> None:
    """Uncorrected, all of 30 intervals hold in about 21 % of families."""
    rng, sets, claims, n = np.random.default_rng(5), tries(150), 30, 10
    missed = 0
    for rows in (0.002 * rng.normal(size=(sets, claims, n))).tolist():
        family = corrected([claim(paired([(0.0, d) for d in row])) for row in rows])
        assert {c.verdict for c in family} == {"equivalent"}
        ends = [(c.family.ratio.low, c.family.ratio.high) for c in family if c.family]
        assert len(ends) == claims
        missed += not all(low is not None and high is not None and low <= 1 <= high for low, high in ends)
    assert missed / sets <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / sets)


def test_the_interval_shown_is_the_one_that_decides() -> None:
    """Alone it excludes 1; among five it does not, and neither does what stands next to `undecided`."""
    barely, *others = [claim(normal(-0.0277, 0.01)), *(claim(normal(0.0, 0.02)) for _ in range(4))]
    assert (barely.ratio.high or 0) < 1
    found = corrected([barely, *others])[0]
    assert found.verdict == "undecided"
    assert (found.deciding.high or 0) > 1


def test_what_is_picked_out_of_many_has_to_be_surer() -> None:
    """p of 0.02 alone is `slower`; among five it is not."""
    barely, *others = [claim(normal(-0.0277, 0.01)), *(claim(normal(0.0, 0.02)) for _ in range(4))]
    assert barely.verdict == "slower"
    found = corrected([barely, *others])
    assert found[0].verdict == "undecided"
    assert found[0].family is not None
    assert (found[0].family.size, found[0].family.correction, found[0].family.alone) == (5, "holm", "slower")
    assert found[0].ratio == barely.ratio
    assert found[0].runs_needed is not None
    assert "jointly with 4 others" in found[0].reason


def test_the_step_down_finds_what_a_flat_correction_would_miss() -> None:
    """One-sided p of 0.0043 is above 0.025 / 6, and below 0.025 / 5 once another has gone."""
    close, clear = claim(normal(0.0326, 0.01)), claim(normal(0.5, 0.01))
    rest = [claim(normal(0.0, 0.02)) for _ in range(4)]
    assert corrected([close, claim(normal(0.0, 0.02)), *rest])[0].verdict == "undecided"
    assert corrected([close, clear, *rest])[0].verdict == "faster"


def test_how_far_a_large_difference_reaches_beside_an_undecided_one_is_said_of_it_alone() -> None:
    large, _ = corrected([claim(normal(0.3, 0.01)), claim(normal(0.0, 0.02))])
    assert (large.verdict, large.by_margin) == ("faster", False)
    assert "taken alone it is entirely beyond the margin" in large.reason


def test_an_interval_excludes_1_exactly_where_the_verdict_is_faster_or_slower() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        family = [claim(normal(float(rng.normal(0, 0.03)), 0.01), margin=1e-6) for _ in range(4)]
        for c in corrected(family):
            assert c.family is not None
            low, high = c.family.ratio.low, c.family.ratio.high
            assert low is not None
            assert high is not None
            assert (c.verdict in ("faster", "slower")) == (low > 1 or high < 1)
            assert low <= c.ratio.value <= high


def test_a_comparison_without_an_interval_claims_nothing() -> None:
    none = replace(
        claim(normal(0.05, 0.01)), ratio=Estimate(1.05, None, None, 2, ""), error=None, degrees=None
    )
    other = claim(normal(0.05, 0.01))
    found = corrected([none, other])
    assert found == (none, other)


def test_differences_without_any_spread_stay_certain() -> None:
    same, other = claim(LogInterval(0.05, 0.0, 3, error=0.0, degrees=2)), claim(normal(0.0, 0.02))
    equal = claim(LogInterval(0.0, 0.0, 3, error=0.0, degrees=2))
    assert [c.verdict for c in corrected([same, other, equal])] == ["faster", "undecided", "equivalent"]


@pytest.mark.parametrize(
    "truth",
    long_but(1, [(0.0,) * 6, (0.03, 0.0, 0.0, 0.0, 0.0, 0.0), (0.3,) * 6, (0.05, -0.05, 0.3, 0.0, 0.0, 0.0)]),
    ids=["none differs", "one differs", "all differ", "some differ"],
)
def test_in_95_of_100_families_all_intervals_hold_and_no_claim_is_wrong(truth: tuple[float, ...]) -> None:
    rng, sets, n = np.random.default_rng(3), tries(400), 6
    missed, wrong = 0, 0
    for rows in (0.02 * rng.normal(size=(sets, len(truth), n)) + np.array(truth)[None, :, None]).tolist():
        family = corrected([claim(paired([(0.0, d) for d in row]), margin=1e-6) for row in rows])
        inside = [
            (c.family.ratio.low or 0) <= math.exp(t) <= (c.family.ratio.high or 0)
            for c, t in zip(family, truth, strict=True)
            if c.family
        ]
        missed += not all(inside)
        wrong += any(
            (c.verdict == "faster" and t <= 0) or (c.verdict == "slower" and t >= 0)
            for c, t in zip(family, truth, strict=True)
        )
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / sets)
    assert missed / sets <= allowed
    assert wrong / sets <= allowed


def test_looks_and_claims_together_leave_less_to_each() -> None:
    """At a maximum of 20 pairs the p of a look is 0.0129; of two claims each may spend 0.8 of half of it."""
    interval = normal(0.035, 0.01)
    repeated = replace(claim(interval), ratio=replace(claim(interval).ratio, confidence=1 - 0.0129))
    none = replace(
        claim(normal(0.0, 0.02)), ratio=replace(claim(normal(0, 0.02)).ratio, confidence=1 - 0.0129)
    )
    found = corrected([repeated, none])[0]
    assert found.family is not None
    assert found.family.ratio.low is not None
    level = (0.035 - math.log(found.family.ratio.low)) / 0.01
    assert level == pytest.approx(stats.t.isf(0.8 * 0.0129 / 4, 10), rel=1e-6)


def noisy_beyond_numbers() -> Comparison:
    """A comparison of two pairs that are 40 orders of magnitude apart."""
    return claim(paired([(0.0, 0.1), (0.0, 95.0)]))


def test_a_family_with_an_end_that_no_number_holds_leaves_that_claim_open_and_the_others_intact() -> None:
    others = [claim(paired([(0.0, 0.3), (0.0, 0.301), (0.0, 0.302)])) for _ in range(29)]
    first, *rest = corrected([noisy_beyond_numbers(), *others])
    assert first.verdict == "undecided"
    assert first.family is not None
    assert first.family.ratio.high is None
    assert "exceeds any number" in first.reason
    assert {c.verdict for c in rest} == {"faster"}


def test_an_interval_with_an_end_that_no_number_holds_is_open_there() -> None:
    found = paired([(0.0, 0.1), (0.0, 300.0)]).estimate("")
    assert (found.low, found.high) == (None, None)
    assert found.value > 1


def test_a_gate_holds_by_an_equivalent_claim_whose_interval_in_the_family_is_open() -> None:
    certain = claim(normal(0.005, 0.004))
    family = Family(30, "holm", replace(certain.ratio, high=None), "equivalent")
    assert gate_verdict(replace(certain, family=family)).answer == "holds"
    assert gate_verdict(corrected([noisy_beyond_numbers(), certain])[0]).answer == "undecided"


def slower_beside_a_control() -> tuple[Comparison, Comparison]:
    """A tenth slower, and a comparison of one system with itself that is too noisy to say anything."""
    slower, control = corrected([claim(normal(-0.1, 0.005)), claim(normal(0.0, 0.02))])
    assert slower.deciding.high == pytest.approx(1.0, abs=1e-9)
    return slower, control


def test_an_interval_that_ends_at_1_has_the_one_taken_alone_beside_it() -> None:
    slower, control = slower_beside_a_control()
    alone = figures.interval(slower.ratio)
    assert figures.compared(slower).endswith(f"to <1.000; alone {alone})")
    assert "alone" not in figures.compared(control)
    text = " ".join(plain(shown(verdicts([slower, control]))).split())
    assert figures.interval(slower.ratio, "–") in text
    assert "A bound of <1 or >1 gives the direction but not the size" in text
    first, beside, *_ = verdict_table([slower, control], on_page=True).bodies[0].rows
    assert any(cell.endswith("–<1.000") for cell in first.cells)
    assert (beside.cells[0], beside.cells[4]) == ("  alone", figures.interval(slower.ratio, "–"))


def test_no_footnote_is_said_of_ends_that_no_interval_has() -> None:
    both = corrected([claim(normal(-0.1, 0.005)), claim(normal(-0.1, 0.005))])
    assert "A bound of" not in plain(shown(verdicts(both)))


def test_a_gate_says_which_interval_an_answer_rests_on() -> None:
    slower, control = slower_beside_a_control()
    found = gate_verdict(slower)
    assert found.answer == "undecided"
    assert "taken alone" in found.reason
    assert "jointly with 1 other it may be worse by less" in found.reason
    assert gate_verdict(claim(normal(-0.1, 0.005))).reason.startswith("the whole interval")
    assert gate_verdict(control).reason.startswith("the interval taken alone (")

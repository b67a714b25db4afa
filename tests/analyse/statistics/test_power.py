"""How many runs would decide: the power is that of the verdicts, the range that of the spread."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest

from assay.analyse.comparison.verdict import decide
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.statistics import intervals, power
from assay.analyse.statistics.power import (
    Spread,
    difference_power,
    equivalence_power,
    of_pairs,
    of_sides,
    runs_needed,
)
from assay.records import Comparison, RunsNeeded
from stated_runs import metrics, side

MARGIN = 0.02


def _spread(share: float, runs: int = 10) -> Spread:
    """Unpaired, of two sides of so many runs that spread alike."""
    return Spread(2 * share**2, 2 * (runs - 1), paired=False)


def _compared(a: list[float], b: list[float], margin: float = MARGIN, session: str = "s2") -> Comparison:
    [found] = compare_with_doubts(
        side(a, session="s1"),
        side(b, system="b", session=session),
        margin=margin,
        names=("A", "B"),
        metrics=metrics(),
    ).comparisons
    return found


@pytest.mark.parametrize(("share", "by_95", "by_90"), [(0.01, 7, 6), (0.02, 23, 19), (0.03, 50, 41)])
def test_a_margin_of_2_percent_needs_as_many_runs_as_others_found(
    share: float, by_95: int, by_90: int
) -> None:
    """Two one-sided tests at 5 % are an interval of 90 %; the verdict's is one of 95 %, and costs more."""
    assert runs_needed(_spread(share), MARGIN).if_equal.about == by_95
    assert abs((runs_needed(_spread(share), MARGIN, 0.9).if_equal.about or 0) - by_90) <= 1


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [5, 12])
def test_the_power_is_how_often_the_verdict_comes(n: int, paired: bool) -> None:
    rng, sets, share = np.random.default_rng(n), 4000, 0.011
    a, b = (rng.normal(0, share, (sets, n)) for _ in range(2))

    def verdicts(shift: float) -> list[str]:
        found = []
        for x, y in zip(a.tolist(), (b + shift).tolist(), strict=True):
            interval = intervals.paired(list(zip(x, y, strict=True))) if paired else intervals.welch(x, y)
            found.append(decide(interval.estimate(""), MARGIN, "higher")[0])
        return found

    equal = verdicts(0.0).count("equivalent") / sets
    different = verdicts(math.log1p(2 * MARGIN)).count("faster") / sets
    off = 0.02 if paired or n > 5 else 0.05  # Welch's degrees of freedom are fewer than counted here
    assert equal == pytest.approx(equivalence_power(n, 2 * share**2, MARGIN, paired), abs=off)
    assert different == pytest.approx(difference_power(n, 2 * share**2, MARGIN, paired), abs=off)


@pytest.mark.long
def test_the_range_holds_what_is_needed_in_8_of_10_sets_and_never_depends_on_the_effect() -> None:
    rng, sets, n = np.random.default_rng(5), 300, 6
    truth = runs_needed(_spread(0.02), MARGIN).if_equal.about or 0
    held = 0
    for a, b in rng.normal(0, 0.02, (sets, 2, n)).tolist():
        found = runs_needed(of_sides(a, b), MARGIN)
        assert found.if_equal == runs_needed(of_sides(a, [y + 0.5 for y in b]), MARGIN).if_equal
        low, high = found.if_equal.low, found.if_equal.high
        assert low is not None
        assert high is not None
        held += low <= truth <= high
    assert 0.73 < held / sets < 0.90


def test_from_10_runs_a_side_the_number_is_off_by_a_factor_of_13_tenths_at_most_in_half_of_the_sets() -> None:
    rng, n = np.random.default_rng(10), 10
    truth = runs_needed(_spread(0.02), MARGIN).if_equal.about or 0
    errors = []
    for a, b in rng.normal(0, 0.02, (400, 2, n)).tolist():
        about = runs_needed(of_sides(a, b), MARGIN).if_equal.about or math.inf
        errors.append(max(about / truth, truth / about))
    assert median(errors) <= 1.3


def test_what_nobody_would_run_is_not_a_number() -> None:
    found = runs_needed(Spread(2 * 2.0**2, 2, paired=True), 0.01)
    assert found.if_equal.high is None
    assert found.if_equal.about is None


def test_the_least_that_is_asked_for_is_three_runs() -> None:
    found = runs_needed(_spread(1e-5), MARGIN)
    assert (found.if_equal.low, found.if_equal.high) == (3, 3)


def test_only_what_more_runs_would_decide_names_a_number_of_runs() -> None:
    undecided = _compared([100.0, 104.0, 97.0], [101.0, 96.0, 103.0])
    assert undecided.verdict == "undecided"
    assert isinstance(undecided.runs_needed, RunsNeeded)
    assert undecided.runs_needed.of == "runs"
    assert _compared([100.0, 100.1, 99.9], [100.0, 100.2, 99.9]).runs_needed is None
    assert _compared([100.0, 100.1, 99.9], [90.0, 90.2, 89.9]).runs_needed is None
    assert _compared([100.0], [101.0]).runs_needed is None


def test_of_pairs_only_the_differences_count() -> None:
    a = [0.0, 5.0, -3.0, 2.0]
    found = of_pairs(a, [x + d for x, d in zip(a, [0.01, -0.01, 0.02, 0.0], strict=True)])
    assert found.degrees == 3
    assert found.variance == pytest.approx(np.var([0.01, -0.01, 0.02, 0.0], ddof=1))


def test_a_stricter_confidence_needs_more_runs() -> None:
    usual, strict = (runs_needed(_spread(0.02), MARGIN, c).if_equal.about or 0 for c in (0.95, 0.987))
    assert strict > 1.2 * usual


def test_the_average_over_the_variance_is_fine_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = [equivalence_power(n, 2e-4, MARGIN, True) for n in (3, 5, 8)]
    monkeypatch.setattr(power, "_STEPS", 4000)
    power._spread_ratios.cache_clear()
    fine = [equivalence_power(n, 2e-4, MARGIN, True) for n in (3, 5, 8)]
    power._spread_ratios.cache_clear()
    assert coarse == pytest.approx(fine, abs=0.002)

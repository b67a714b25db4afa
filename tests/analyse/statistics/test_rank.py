"""The rank estimate beside the ratio: against scipy's exact distributions, and covering as stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from assay.analyse.statistics import rank


def _unpaired_exact(a: list[float], b: list[float], shift: float) -> float:
    return float(stats.mannwhitneyu([y - shift for y in b], a, method="exact").pvalue)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 5), (5, 9), (20, 13)])
def test_the_unpaired_interval_holds_the_shifts_that_the_exact_test_does_not_reject(n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n).tolist(), rng.normal(0.3, 1, size=m).tolist()
    found = rank.unpaired(a, b)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    for edge, inwards in ((math.log(found.low), 1e-9), (math.log(found.high), -1e-9)):
        assert _unpaired_exact(a, b, edge + inwards) > 0.05
        assert _unpaired_exact(a, b, edge - inwards) <= 0.05
    assert math.log(found.value) == pytest.approx(np.median(np.subtract.outer(b, a)))


@pytest.mark.parametrize("n", [6, 9, 25])
def test_the_paired_interval_holds_the_shifts_that_the_exact_test_does_not_reject(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.2, 1, size=n)
    found = rank.paired([(1.0, 1.0 + d) for d in differences.tolist()])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    for edge, inwards in ((math.log(found.low), 1e-9), (math.log(found.high), -1e-9)):
        assert stats.wilcoxon(differences - edge - inwards, method="exact").pvalue > 0.05
        assert stats.wilcoxon(differences - edge + inwards, method="exact").pvalue <= 0.05


@pytest.mark.parametrize(("n", "m", "exists"), [(3, 3, False), (3, 4, False), (4, 4, True), (3, 5, True)])
def test_unpaired_it_exists_only_where_its_exact_interval_does(n: int, m: int, exists: bool) -> None:
    found = rank.unpaired([float(i) for i in range(n)], [float(i) for i in range(m)])
    assert (found is not None) == exists


@pytest.mark.parametrize(("n", "exists"), [(2, False), (5, False), (6, True), (50, True), (51, False)])
def test_paired_it_exists_from_6_pairs_to_50(n: int, exists: bool) -> None:
    assert (rank.paired([(0.0, float(i)) for i in range(n)]) is not None) == exists


@pytest.mark.parametrize("n", [4, 10])
def test_it_covers_in_at_least_94_of_100_however_heavy_the_tails(n: int) -> None:
    rng, sets, covered = np.random.default_rng(n), 3000, 0
    for a, b in (0.001 * rng.standard_cauchy((sets, 2, n))).tolist():
        found = rank.unpaired(a, b)
        assert found is not None
        covered += (found.low or 0) <= 1 <= (found.high or 0)
    assert 0.94 <= covered / sets < 1


def test_one_run_far_off_moves_the_mean_and_hardly_the_rank_estimate() -> None:
    a = [0.00, 0.01, 0.02, 0.03, 0.04, 0.05]
    steady, off = a, [*a[:-1], 1.0]
    still, moved = rank.unpaired(a, steady), rank.unpaired(a, off)
    assert still is not None
    assert moved is not None
    assert moved.value / still.value < 1.02
    assert math.exp(np.mean(off) - np.mean(a)) > 1.15

"""Scores from counts of pixels, and intervals that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest

from assay.data.segmentation_scores import LEAST_SCENES, scores, scores_of_scenes


def test_a_class_without_labels_has_no_score_and_does_not_lower_the_mean() -> None:
    found = scores([[50, 100, 80], [0, 0, 20], [30, 60, 60]])
    assert [one.value for one in found.ious] == [pytest.approx(50 / 130), None, pytest.approx(30 / 90)]
    assert found.mean_iou.value == pytest.approx((50 / 130 + 30 / 90) / 2)
    assert found.accuracy.value == pytest.approx(80 / 160)


def test_without_any_label_nothing_is_defined() -> None:
    found = scores([[0, 0, 5], [0, 0, 0]])
    assert (found.mean_iou.value, found.accuracy.value) == (None, None)


def test_few_scenes_have_no_interval() -> None:
    scene = [[50, 100, 80], [30, 60, 60]]
    assert scores_of_scenes([scene] * (LEAST_SCENES - 1)).mean_iou.low is None
    rare = [scene] * 2 + [[[0, 0, 0], [30, 60, 60]]] * LEAST_SCENES
    rarely = scores_of_scenes(rare)
    assert rarely.ious[0].low is None  # it is in two scenes only


def test_alike_scenes_have_a_narrow_interval_around_the_value() -> None:
    chance = np.random.default_rng(1)
    found = scores_of_scenes([[[50 + chance.integers(3), 100, 80]] for _ in range(40)]).ious[0]
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high < found.low + 0.02


def drawn_scenes(chance: np.random.Generator, count: int) -> np.ndarray:
    """Scenes of different size and difficulty: one class, right, true, predicted."""
    true = chance.lognormal(0, 0.8, count) * 1e4
    right = true * chance.beta(8, 2, count)
    predicted = right + true * chance.lognormal(0, 0.5, count) * 0.15
    return np.stack([right, true, predicted], axis=-1)[:, None, :]


def test_intervals_over_scenes_cover_the_truth_about_as_often_as_they_say() -> None:
    right, true, predicted = drawn_scenes(np.random.default_rng(9), 400_000)[:, 0].sum(axis=0)
    truth = right / (true + predicted - right)
    chance, covered, tries = np.random.default_rng(1), 0, 150
    for seed in range(tries):
        one = scores_of_scenes(drawn_scenes(chance, 20), seed).ious[0]
        assert one.low is not None
        assert one.high is not None
        covered += one.low <= truth <= one.high
    assert 0.87 * tries <= covered <= 0.995 * tries

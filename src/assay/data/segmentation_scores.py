"""Scores of a segmentation from counts of pixels: intersection over union, with intervals over scenes.

A class that is in no label has no score: what was predicted as it is an error of the classes that are there,
and counts in theirs. The frames of a scene resemble each other, so the scenes are the unit of replication:
an interval is that of a cluster bootstrap, which draws scenes with replacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

LEAST_SCENES: Final = 8  # with fewer, a simulation finds that intervals cover the truth too rarely
DRAWS: Final = 2000
CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class ShareInterval:
    """A share from 0 to 1 and its 95 % interval; None where it isn't defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SegmentationScores:
    """What the counts of some frames amount to.

    ious      of each class; None if no label has it
    mean_iou  over the classes that labels have
    accuracy  share of pixels that were predicted right
    """

    ious: tuple[ShareInterval, ...]
    mean_iou: ShareInterval
    accuracy: ShareInterval


def scores(counts: Any) -> SegmentationScores:
    """Without intervals, from the pixels of each class: right, true, predicted (classes × 3)."""
    ious, mean, accuracy = _figures(_array(counts)[None])
    return SegmentationScores(
        tuple(ShareInterval(_float_or_none(value)) for value in ious[0]),
        ShareInterval(_float_or_none(mean[0])),
        ShareInterval(_float_or_none(accuracy[0])),
    )


def scores_of_scenes(counts: Sequence[Any], seed: int = 0) -> SegmentationScores:
    """With intervals where there are enough scenes, from the pixels of each scene (scenes × classes × 3).

    A class's interval needs eight scenes with the class; so does the mean's, of whichever.
    """
    import numpy as np

    by_scene = _array(counts)
    whole = by_scene.sum(axis=0)
    estimates = scores(whole)
    count = len(by_scene)
    if count < LEAST_SCENES:
        return estimates
    chance = np.random.default_rng(seed)
    drawn = chance.multinomial(count, np.full(count, 1 / count), size=DRAWS)
    sums = np.tensordot(drawn.astype(float), by_scene, axes=1)
    ious, mean, accuracy = _figures(sums)
    scenes = (by_scene[:, :, 1] > 0).sum(axis=0)
    return SegmentationScores(
        tuple(
            _with_interval(iou.value, draws, int(there))
            for iou, draws, there in zip(estimates.ious, ious.T, scenes, strict=True)
        ),
        _with_interval(estimates.mean_iou.value, mean, count),
        _with_interval(estimates.accuracy.value, accuracy, count),
    )


def _array(counts: Any) -> Any:
    import numpy as np

    return np.asarray(counts, dtype=float)


def _figures(counts: Any) -> tuple[Any, Any, Any]:
    """IoU of each class, their mean, accuracy, along the first axis; NaN where nothing is defined."""
    import numpy as np

    right, true, predicted = counts[..., 0], counts[..., 1], counts[..., 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        ious = np.where(true > 0, right / (true + predicted - right), np.nan)
        there = (true > 0).sum(axis=-1)
        mean = np.where(there > 0, np.nansum(ious, axis=-1) / there, np.nan)
        total = true.sum(axis=-1)
        accuracy = np.where(total > 0, right.sum(axis=-1) / total, np.nan)
    return ious, mean, accuracy


def _with_interval(value: float | None, draws: Any, scenes: int) -> ShareInterval:
    """The bootstrap's standard error on the logit scale, by the t of the scenes: it widens for few."""
    import numpy as np
    from scipy import stats

    inside = draws[(draws > 0) & (draws < 1)]
    if value is None or scenes < LEAST_SCENES or not 0 < value < 1 or len(inside) < len(draws) / 2:
        return ShareInterval(value)
    logits = np.log(inside / (1 - inside))
    deviation = float(logits.std(ddof=1)) * math.sqrt(scenes / (scenes - 1))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, scenes - 1)) * deviation
    middle = math.log(value / (1 - value))
    return ShareInterval(value, _expit(middle - half), _expit(middle + half))


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _float_or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)

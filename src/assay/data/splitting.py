"""Chosen frames split into parts with stated percentages, of each scene and of the whole."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

from assay.data.catalog import Catalog
from assay.data.manifest import ChosenFrame
from assay_payloads.datasets.manifest import file_of

WITHOUT_SCENES = ("coco", "imagefolder")  # their column `scene` is a split of the data set


def scenes_of(catalog: Catalog, frames: Sequence[ChosenFrame]) -> dict[str, str]:
    """The scene of each frame by its label; "" if its data set states none."""
    labels, layout = {frame.label for frame in frames}, catalog.about.layout
    rows = catalog.connection.execute("SELECT label, scene FROM frames")
    scenes: dict[str, str] = {}
    while some := rows.fetchmany(100_000):
        scenes.update(
            (label, "" if _is_split(layout, label, scene) else scene)
            for label, scene in some
            if label in labels
        )
    return scenes


def _is_split(layout: str, label: str, scene: str) -> bool:
    """Whether what a catalog has as the scene is only the folder of the frame's file."""
    if layout in WITHOUT_SCENES:
        return True
    return layout == "webdataset" and scene == file_of(layout, label).rpartition("/")[0]


def split(
    frames: Sequence[ChosenFrame], scenes: Mapping[str, str], percents: Sequence[float], seed: int
) -> list[list[ChosenFrame]]:
    """Parts of the frames at random, each frame in one; sorted by label.

    scenes    of frames by label; those of "" are split together

    Each scene's part is rounded down or up, and what rounding adds to a part is taken from it at a later
    scene. So a part differs from its percentage by few frames, however many scenes there are.
    """
    parts: list[list[ChosenFrame]] = [[] for _ in percents]
    by_scene: dict[str, list[ChosenFrame]] = {}
    for frame in frames:
        by_scene.setdefault(scenes.get(frame.label, ""), []).append(frame)
    order = sorted(by_scene)
    random.Random(seed).shuffle(order)  # noqa: S311 - a draw, no secret
    shares = [Fraction(percent) / sum(map(Fraction, percents)) for percent in percents]
    owed = [Fraction(0)] * len(percents)
    for scene in order:
        shuffled = list(by_scene[scene])
        random.Random(f"{seed} {scene}").shuffle(shuffled)  # noqa: S311
        first = 0
        for part, count in zip(parts, _counts(len(shuffled), shares, owed), strict=True):
            part += shuffled[first : first + count]
            first += count
    return [sorted(part, key=lambda frame: frame.label) for part in parts]


def _counts(frame_count: int, shares: Sequence[Fraction], owed: list[Fraction]) -> list[int]:
    """How many of a scene's frames each part gets; `owed` is what rounding has kept from each so far."""
    exact = [frame_count * share for share in shares]
    counts = [math.floor(number) for number in exact]
    for part, (number, count) in enumerate(zip(exact, counts, strict=True)):
        owed[part] += number - count
    rounded = [part for part, number in enumerate(exact) if number != counts[part]]
    for part in sorted(rounded, key=lambda part: (-owed[part], shares[part], part))[
        : frame_count - sum(counts)
    ]:
        counts[part] += 1
        owed[part] -= 1
    return counts

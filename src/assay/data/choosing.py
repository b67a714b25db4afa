"""Sets of frames: one whose classes are distributed as stated, and parts with stated percentages.

For a representative set, frames are added one by one, each time the one of some hundred random ones that
brings the shares of the set nearest to the target, by the Jensen-Shannon distance that scenes are compared
by, too. A split keeps the percentages in each scene and in the whole.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from assay.data.catalog import Catalog
from assay.data.classes import UNKNOWN
from assay.data.filters import condition
from assay.errors import InputError, Problem
from assay.frame_manifest import ChosenFrame, read_manifest
from assay.inputs import read_whole
from assay_payloads.datasets.manifest import file_of

MOST_CANDIDATES: Final = 50_000  # frames to choose from, drawn at random from more
TRIED: Final = 256  # frames that are considered for each place
REST: Final = "the rest"
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class TargetShares:
    """Shares of pixels: of classes, by their columns, and of all others together; they add up to 1."""

    shares: Mapping[str, float]
    rest: float


@dataclass(frozen=True)
class RepresentativeSet:
    """Chosen frames.

    distance   Jensen-Shannon distance of their classes from the target, 0 (alike) to 1
    at_random  the same of a random set of as many frames
    farthest   the class whose share differs most; share: in the set, target: as stated
    """

    frames: tuple[ChosenFrame, ...]
    distance: float
    at_random: float
    farthest: str
    share: float
    target: float


def target_of(path: Path, catalog: Catalog) -> TargetShares:
    """The distribution in a JSON file, `{"car": 0.07, "sky": "20%"}`, or that of a manifest's frames.

    Raises InputError with everything that is wrong with the file.
    """
    head = read_whole(path)
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return _of_manifest(path, catalog)
    if isinstance(value, dict) and "manifest" in value:  # without frames, it is one line
        return _of_manifest(path, catalog)
    if not isinstance(value, dict) or not value:
        raise InputError([Problem(str(path), 'found no table; expected {"car": 0.07, "sky": "20%"}')])
    problems = [
        Problem(str(path), f"the catalog has no class {name!r}; `assay data classes` lists them")
        for name in value
        if name not in catalog.about.columns
    ]
    shares = {name: _share(written) for name, written in value.items()}
    problems += [
        Problem(str(path), f"{name}: found {value[name]!r}; expected a share, like 0.07 or 7%")
        for name, share in shares.items()
        if share is None
    ]
    known = {name: share for name, share in shares.items() if share is not None}
    total = sum(known.values())
    if total > 1 + _TOLERANCE:
        problems.append(Problem(str(path), f"the shares add up to {total:.2%}; expected at most 100 %"))
    if problems:
        raise InputError(problems)
    return TargetShares(known, max(0.0, 1 - total))


def _share(written: object) -> float | None:
    if isinstance(written, str) and written.strip().endswith("%"):
        try:
            value = float(written.strip()[:-1]) / 100
        except ValueError:
            return None
    elif isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    else:
        return None
    return value if 0 <= value <= 1 else None


def _of_manifest(path: Path, catalog: Catalog) -> TargetShares:
    labels = [frame.label for frame in read_manifest(path).frames]
    columns = (*catalog.about.columns, UNKNOWN)
    each = ", ".join(f'coalesce(sum("{c}"), 0)' for c in columns)
    row = catalog.connection.execute(
        f"SELECT count(*), {each} FROM frames WHERE label IN (SELECT unnest(?))",  # noqa: S608
        [labels],
    ).fetchone()
    assert row is not None
    count, *pixels = row
    if count != len({*labels}) or not sum(pixels):
        raise InputError(
            f"{path}: {len({*labels}) - count} of its frames are not in the catalog; scan them first"
        )
    total = float(sum(pixels))
    shares = {name: float(n) / total for name, n in zip(catalog.about.columns, pixels, strict=False)}
    return TargetShares(shares, float(pixels[-1]) / total)


def representative(
    catalog: Catalog, where: str, target: TargetShares, limit: int, seed: int
) -> RepresentativeSet:
    """Frames that satisfy a condition, chosen so that their classes are distributed like the target.

    Raises InputError for a wrong condition, or if fewer frames than the limit satisfy it.
    """
    import numpy as np

    frames, pixels = _candidates(catalog, where, [*target.shares], seed)
    if limit > len(frames):
        raise InputError(f"{len(frames)} frames satisfy the condition; expected at least the limit, {limit}")
    goal = np.array([*target.shares.values(), target.rest])
    chance = np.random.default_rng(seed)
    drawn = chance.permutation(len(frames))[:limit]
    built = np.array(_built(pixels, goal, limit, chance))
    at_random = distance(pixels[drawn].sum(axis=0), goal)
    best = min((built, drawn), key=lambda places: distance(pixels[places].sum(axis=0), goal))
    sums = pixels[best].sum(axis=0)
    own = sums / sums.sum()
    most = int(np.argmax(abs(own - goal)))
    name = (*target.shares, REST)[most]
    chosen = sorted((frames[place] for place in best), key=lambda frame: frame.label)
    return RepresentativeSet(
        tuple(chosen), distance(sums, goal), at_random, name, float(own[most]), float(goal[most])
    )


def distance(pixels: Any, goal: Any) -> float:
    """Jensen-Shannon distance of pixels per class from shares, 0 to 1."""
    return float(distances(pixels[None], goal)[0])


def distances(pixels: Any, goal: Any) -> Any:
    """The distance of each row of pixels from shares, as `distance` has it."""
    import numpy as np

    own = pixels / pixels.sum(axis=1, keepdims=True)
    mean = (own + goal) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(own > 0, own * np.log2(own / mean), 0.0).sum(axis=1)
        b = np.where(goal > 0, goal * np.log2(goal / mean), 0.0).sum(axis=1)
    return np.sqrt(np.maximum(0.0, (a + b) / 2))


def _built(pixels: Any, goal: Any, limit: int, chance: Any) -> list[int]:
    """Places of frames, chosen one after the other."""
    import numpy as np

    left, sums, chosen = np.arange(len(pixels)), np.zeros(pixels.shape[1]), []
    for _ in range(limit):
        tried = np.arange(len(left)) if len(left) <= TRIED else chance.choice(len(left), TRIED, replace=False)
        best = tried[int(np.argmin(distances(sums + pixels[left[tried]], goal)))]
        chosen.append(int(left[best]))
        sums = sums + pixels[left[best]]
        left[best] = left[-1]
        left = left[:-1]
    return chosen


def _candidates(
    catalog: Catalog, where: str, columns: Sequence[str], seed: int
) -> tuple[list[ChosenFrame], Any]:
    """Frames, and their pixels of each class and of the rest (frames × classes + 1)."""
    import numpy as np

    clause = condition(where, catalog.columns) if where.strip() else None
    each = "".join(f', "{name}"' for name in columns)
    rows = catalog.connection.execute(
        f"SELECT label, image, label_bytes, image_bytes, pixels{each} FROM frames "  # noqa: S608
        f"WHERE {clause.sql if clause else 'TRUE'} ORDER BY hash(label || ?), label LIMIT {MOST_CANDIDATES}",
        [*(clause.values if clause else ()), str(seed)],
    ).fetchall()
    rows.sort()
    counts = np.array([row[4:] for row in rows], dtype=float).reshape(len(rows), len(columns) + 1)
    rest = counts[:, 0] - counts[:, 1:].sum(axis=1)
    return [ChosenFrame(*row[:4]) for row in rows], np.column_stack([counts[:, 1:], rest])


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

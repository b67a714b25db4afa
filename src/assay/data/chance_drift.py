"""How far from all frames chance alone puts a set of frames: what a scene's distance is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assay.data.catalog import Catalog
from assay.data.classes import UNKNOWN
from assay.data.filters import Condition
from assay.data.representative import distances

POOL: Final = 4000  # frames to draw from; of more, these are a sample
DRAWS: Final = 200
QUANTILE: Final = 0.95


def by_chance(catalog: Catalog, where: Condition, sizes: Sequence[int]) -> list[float]:
    """The distance that 19 of 20 random sets of this many frames don't exceed, of each size.

    sizes  frames of each scene; together all frames that satisfy the condition
    """
    import numpy as np

    pixels = _pool(catalog, where)
    goal = pixels.sum(axis=0) / pixels.sum()
    chance, all_of_them = np.random.default_rng(0), len(pixels) == sum(sizes)
    largest = np.minimum(sizes, len(pixels))
    drawn = np.empty((DRAWS, len(sizes)))
    for draw in range(DRAWS):  # the first n of a random order are n random frames
        order = chance.permutation(len(pixels)) if all_of_them else chance.integers(len(pixels), size=POOL)
        drawn[draw] = distances(pixels[order].cumsum(axis=0)[largest - 1], goal)
    beyond = np.sqrt(largest / np.array(sizes))  # the distance falls with the root of the frames
    return [float(distance) for distance in np.quantile(drawn, QUANTILE, axis=0) * beyond]


def _pool(catalog: Catalog, where: Condition) -> Any:
    """Pixels per class of the frames, or of a sample of them, a row each."""
    import numpy as np

    each = ", ".join(f'"{column}"' for column in (*catalog.about.columns, UNKNOWN))
    rows = catalog.connection.execute(
        f"SELECT {each} FROM frames WHERE {where.sql} ORDER BY hash(label), label LIMIT {POOL}",  # noqa: S608
        list(where.values),
    ).fetchall()
    return np.array(rows, dtype=float)

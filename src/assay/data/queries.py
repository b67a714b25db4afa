"""Questions to a catalog: the frames that a condition, a draw and a balance choose, and their classes.

How far a scene is from all frames is compared with how far chance alone puts as many frames.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.data.catalog import Catalog, reading
from assay.data.choosing import distances
from assay.data.classes import UNKNOWN
from assay.data.filters import Condition, condition
from assay.errors import InputError
from assay.frame_manifest import ChosenFrame, Manifest, made
from assay.questions.question import Answer
from assay.records import FrameChoice
from assay.view.blocks import Block, Table, TableBody, TableRow

MOST_ROWS: Final = 1_000_000  # of an answer to SQL; more belong into a file
MOST_TEXT: Final = 64 << 20  # characters of its texts
LONGEST_CELL: Final = 10_000  # characters on a terminal
ROWS_AT_ONCE: Final = 2048
SLOWEST_S: Final = 60.0


@dataclass(frozen=True)
class ClassShare:
    """A class over many frames.

    share   of all their pixels
    frames  that show it
    largest share of a frame's pixels
    """

    name: str
    column: str
    share: float
    frames: int
    largest: float


@dataclass(frozen=True)
class SceneDrift:
    """How far the classes of a scene are from those of all frames.

    distance   Jensen-Shannon distance of the shares, 0 (alike) to 1
    at_random  the distance that 19 of 20 random sets of as many frames don't exceed
    class_     whose share differs most; share, of_all: there and over all frames
    """

    scene: str
    frames: int
    distance: float
    at_random: float
    class_: str
    share: float
    of_all: float


@dataclass(frozen=True)
class SqlAnswer(Answer):
    """Rows of a query in SQL."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def view(self) -> Iterator[Block]:
        """The rows; a column of numbers is aligned to the right."""
        numbers = (int, float, type(None))
        text_columns = frozenset(
            column
            for column in range(len(self.columns))
            if not all(isinstance(row[column], numbers) for row in self.rows)
        )
        rows = tuple(
            TableRow(tuple("" if value is None else _shown(str(value)) for value in row)) for row in self.rows
        )
        yield Table("", tuple(map(_shown, self.columns)), (TableBody("", rows),), text_columns, whole=True)

    def document(self) -> dict[str, Any]:
        """Rows as they are, other values than numbers as text."""
        plain = (str, int, float, bool, type(None))
        rows = [[value if isinstance(value, plain) else str(value) for value in row] for row in self.rows]
        return {"columns": list(self.columns), "rows": rows}


def _shown(cell: str) -> str:
    """A cell for a terminal: each control character as its escape, and cut where --json has the whole.

    >>> _shown("a\x1b[31m")
    'a\\x1b[31m'
    """
    cut = cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}… ({len(cell):,} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def chosen(
    catalog: Catalog,
    where: str = "",
    *,
    limit: int | None = None,
    seed: int = 0,
    balance: str | None = None,
) -> list[ChosenFrame]:
    """Frames that satisfy a condition, sorted by their label.

    limit    take so many at random; the same ones for the same seed
    balance  a class: take as many frames without it as with it, at random; of an odd limit, one more with it

    Raises InputError for a wrong condition or class, or if fewer frames are left than the limit.
    """
    rest = _parse_condition(catalog, where)
    if balance is None:
        return _frames(catalog, rest) if limit is None else _some(catalog, rest, limit, seed)
    with_it = _frames(catalog, _all_of(rest, condition(f"{balance} > 0", catalog.columns)))
    without = _frames(catalog, _all_of(rest, condition(f"{balance} = 0", catalog.columns)))
    most = 2 * min(len(with_it), len(without))
    count = most if limit is None else limit
    _check_limit(count, most)
    drawn = [*_drawn(with_it, count - count // 2, seed), *_drawn(without, count // 2, seed)]
    return sorted(drawn, key=lambda frame: frame.label)


def shares(catalog: Catalog, where: str = "") -> tuple[int, list[ClassShare]]:
    """How many frames there are, and each class over them, the largest first."""
    rest = _parse_condition(catalog, where)
    columns = (*catalog.about.columns, UNKNOWN)
    each = ", ".join(f'sum("{c}") / sum(pixels), count_if("{c}" > 0), max("{c}" / pixels)' for c in columns)
    row = catalog.connection.execute(
        f"SELECT count(*), {each} FROM frames WHERE {rest.sql}",  # noqa: S608 - columns and parameters
        list(rest.values),
    ).fetchone()
    assert row is not None
    if not row[0]:
        return 0, []
    names = (*catalog.about.names, "(unknown colors)")
    class_shares = [
        ClassShare(name, column, *row[1 + 3 * index : 4 + 3 * index])
        for index, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    return row[0], sorted(class_shares, key=lambda share: -share.share)


def together(catalog: Catalog, columns: Sequence[str], where: str = "") -> list[list[int]]:
    """How many frames show both of two classes, for each pair; on the diagonal, those that show one.

    Raises InputError for a class that the catalog does not have, or a wrong condition.
    """
    rest = _parse_condition(catalog, where)
    known = (*catalog.about.columns, UNKNOWN)
    if strange := [column for column in columns if column not in known]:
        raise InputError(
            f"the catalog has no class {', '.join(map(repr, strange))}; `assay data classes` lists them"
        )
    pairs = [(a, b) for index, a in enumerate(columns) for b in columns[index:]]
    each = ", ".join(f'count_if("{a}" > 0 AND "{b}" > 0)' for a, b in pairs)
    row = catalog.connection.execute(
        f"SELECT {each} FROM frames WHERE {rest.sql}",  # noqa: S608
        list(rest.values),
    ).fetchone()
    assert row is not None
    counts = dict(zip(pairs, row, strict=True))
    return [[counts.get((a, b), counts.get((b, a), 0)) for b in columns] for a in columns]


def drift(catalog: Catalog, where: str = "") -> list[SceneDrift]:
    """The scenes, the one that differs most from all frames first."""
    import numpy as np

    rest = _parse_condition(catalog, where)
    columns = (*catalog.about.columns, UNKNOWN)
    each = ", ".join(f'sum("{c}")' for c in columns)
    rows = catalog.connection.execute(
        f"SELECT scene, count(*), {each} FROM frames WHERE {rest.sql} GROUP BY scene ORDER BY scene",  # noqa: S608
        list(rest.values),
    ).fetchall()
    if not rows:
        return []
    pixels = np.array([row[2:] for row in rows], dtype=float)
    of_all = pixels.sum(axis=0) / pixels.sum()
    scenes = []
    at_random = drift_by_chance(catalog, rest, [row[1] for row in rows])
    shares_of = pixels / pixels.sum(axis=1, keepdims=True)
    for row, own, limit in zip(rows, shares_of, at_random, strict=True):
        most = int(np.argmax(abs(own - of_all)))
        mean = (own + of_all) / 2
        distance = float(np.sqrt(max(0.0, (_bits(own, mean) + _bits(of_all, mean)) / 2)))
        name = (*catalog.about.names, "(unknown colors)")[most]
        there = float(own[most]), float(of_all[most])
        scenes.append(SceneDrift(row[0], row[1], distance, limit, name, *there))
    return sorted(scenes, key=lambda scene: -scene.distance)


def sql(catalog: Catalog, text: str, timeout_s: float = SLOWEST_S) -> SqlAnswer:
    """The answer to one query.

    Raises InputError for a wrong one, one that takes too long, or too many rows or too much text.

    The catalog is open for reading only, and DuckDB reaches no other file.
    """
    import duckdb

    try:
        with _interrupted(catalog, timeout_s):
            result = catalog.connection.execute(text)
            if result is None:  # DuckDB's answer to no statement at all
                raise InputError("the query is empty")
            rows = _bounded(result)
            columns = tuple(name for name, *_ in result.description or ())
    except duckdb.InterruptException:
        raise InputError(
            f"the query took longer than {timeout_s:g} s; give more time with --timeout"
        ) from None
    except (duckdb.Error, RuntimeError) as error:
        raise InputError(f"the query failed: {error}") from None
    return SqlAnswer(columns, tuple(rows))


def _bounded(result: Any) -> list[tuple[Any, ...]]:
    """All rows of a result. Raises InputError if they are too many, or have too much text."""
    rows: list[tuple[Any, ...]] = []
    text = 0
    while some := result.fetchmany(ROWS_AT_ONCE):
        rows += some
        plain = (int, float, type(None))
        text += sum(len(str(cell)) for row in some for cell in row if not isinstance(cell, plain))
        if len(rows) > MOST_ROWS:
            raise InputError(f"the answer has more than {MOST_ROWS:,} rows; add a LIMIT")
        if text > MOST_TEXT:
            raise InputError(
                f"the answer has more than {MOST_TEXT:,} characters; choose fewer rows or columns, or cut "
                "texts: left(COLUMN, 100)"
            )
    return rows


@contextmanager
def _interrupted(catalog: Catalog, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, catalog.connection.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _parse_condition(catalog: Catalog, text: str) -> Condition:
    return condition(text, catalog.columns) if text.strip() else Condition("TRUE", ())


def _all_of(a: Condition, b: Condition) -> Condition:
    return Condition(f"({a.sql} AND {b.sql})", (*a.values, *b.values))


def _frames(catalog: Catalog, where: Condition) -> list[ChosenFrame]:
    rows = catalog.connection.execute(
        f"SELECT label, image, label_bytes, image_bytes FROM frames WHERE {where.sql} ORDER BY label",  # noqa: S608
        list(where.values),
    ).fetchall()
    return [ChosenFrame(*row) for row in rows]


def _some(catalog: Catalog, where: Condition, limit: int, seed: int) -> list[ChosenFrame]:
    """The same draw as `_drawn` of all of them, without bringing millions of frames here for a thousand."""
    row = catalog.connection.execute(
        f"SELECT count(*) FROM frames WHERE {where.sql}",  # noqa: S608
        list(where.values),
    ).fetchone()
    assert row is not None
    _check_limit(limit, row[0])
    rows = catalog.connection.execute(
        f"WITH placed AS (SELECT label, row_number() OVER (ORDER BY label) - 1 AS place "  # noqa: S608
        f"FROM frames WHERE {where.sql}), "
        "drawn AS (SELECT label FROM placed WHERE place IN (SELECT unnest(?))) "
        "SELECT label, image, label_bytes, image_bytes FROM frames SEMI JOIN drawn USING (label) "
        "ORDER BY label",
        [*where.values, _places(row[0], limit, seed)],
    ).fetchall()
    return [ChosenFrame(*row) for row in rows]


def _check_limit(limit: int, count: int) -> None:
    if limit > count:
        raise InputError(f"{count} frames satisfy the condition; expected at least the limit, {limit}")


def _drawn(frames: Sequence[ChosenFrame], count: int, seed: int) -> list[ChosenFrame]:
    return [frames[place] for place in _places(len(frames), count, seed)]


def _places(total: int, count: int, seed: int) -> list[int]:
    return sorted(random.Random(seed).sample(range(total), count))  # noqa: S311 - a draw, no secret


def _bits(shares: Any, reference: Any) -> float:
    """Kullback-Leibler divergence, bits."""
    import numpy as np

    there = shares > 0
    return float((shares[there] * np.log2(shares[there] / reference[there])).sum())


def manifest_of(choice: FrameChoice) -> Manifest:
    """The chosen frames, as the catalog has them now; perhaps none.

    Raises InputError for a wrong condition, a catalog that is missing, or fewer frames than the limit.
    """
    parts = [choice.where or "all frames"]
    parts += [] if choice.balance is None else [f"as many without {choice.balance} as with it"]
    of_them = "of them" if choice.balance is None else "in all"
    parts += [] if choice.limit is None else [f"{choice.limit} {of_them} at random"]
    parts += [f"seed {choice.seed}"] if len(parts) > 1 else []
    with reading(Path(choice.catalog)) as catalog:
        frames = chosen(catalog, choice.where, limit=choice.limit, seed=choice.seed, balance=choice.balance)
        return made(catalog.about.root, catalog.about.layout, "; ".join(parts), frames)


def frame_count(catalog: Catalog, where: str = "") -> int:
    """How many frames satisfy a condition; "" for all. Raises InputError for a wrong condition."""
    parsed = condition(where, catalog.columns) if where.strip() else None
    sql, values = ("TRUE", ()) if parsed is None else (parsed.sql, parsed.values)
    row = catalog.connection.execute(
        f"SELECT count(*) FROM frames WHERE {sql}",  # noqa: S608 - columns and parameters
        list(values),
    ).fetchone()
    assert row is not None
    number: int = row[0]
    return number


POOL: Final = 4000  # frames to draw from; of more, these are a sample
DRAWS: Final = 200
QUANTILE: Final = 0.95


def drift_by_chance(catalog: Catalog, where: Condition, sizes: Sequence[int]) -> list[float]:
    """The distance that 19 of 20 random sets of this many frames don't exceed, of each size.

    sizes  frames of each scene; together all frames that satisfy the condition
    """
    import numpy as np

    pixels = _pixel_pool(catalog, where)
    goal = pixels.sum(axis=0) / pixels.sum()
    chance, all_of_them = np.random.default_rng(0), len(pixels) == sum(sizes)
    largest = np.minimum(sizes, len(pixels))
    drawn = np.empty((DRAWS, len(sizes)))
    for draw in range(DRAWS):  # the first n of a random order are n random frames
        order = chance.permutation(len(pixels)) if all_of_them else chance.integers(len(pixels), size=POOL)
        drawn[draw] = distances(pixels[order].cumsum(axis=0)[largest - 1], goal)
    beyond = np.sqrt(largest / np.array(sizes))  # the distance falls with the root of the frames
    return [float(distance) for distance in np.quantile(drawn, QUANTILE, axis=0) * beyond]


def _pixel_pool(catalog: Catalog, where: Condition) -> Any:
    """Pixels per class of the frames, or of a sample of them, a row each."""
    import numpy as np

    each = ", ".join(f'"{column}"' for column in (*catalog.about.columns, UNKNOWN))
    rows = catalog.connection.execute(
        f"SELECT {each} FROM frames WHERE {where.sql} ORDER BY hash(label), label LIMIT {POOL}",  # noqa: S608
        list(where.values),
    ).fetchall()
    return np.array(rows, dtype=float)

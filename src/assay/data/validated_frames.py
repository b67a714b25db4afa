"""What the chunks of a validation amount to: a table of its frames, and the figures of their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.data.classes import of_names
from assay.data.segmentation_scores import SegmentationScores, scores, scores_of_scenes
from assay.data.validation import (
    FRAMES,
    ClassResult,
    FrameResult,
    GroupResult,
    Validation,
    ValidationAbout,
    ValidationDirectory,
)
from assay.errors import InputError
from assay_payloads.datasets.chunks import ManifestChunks, ValidatedChunk

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_AT_ONCE: Final = 2048
MEMORY: Final = "200MB"  # of the table of frames; what is larger is on the disk
MOST_NAMED: Final = 1000  # unreadable frames that are named in a result; the table of frames has all
MOST_GROUPS: Final = 1000  # values of a column, the worst ones
WORST: Final = 12  # frames
_FIXED: Final = (
    ("number", "INTEGER"),
    ("label", "VARCHAR"),
    ("image", "VARCHAR"),
    ("scene", "VARCHAR"),
    ("camera", "VARCHAR"),
    ("unreadable", "VARCHAR"),
    ("pixels", "BIGINT"),
    ("unknown", "BIGINT"),
    ("pixel_accuracy", "DOUBLE"),
    ("mean_iou", "DOUBLE"),
    ("entropy_bits", "DOUBLE"),
)


def reduced(
    directory: ValidationDirectory,
    chunks: ManifestChunks,
    *,
    by: Mapping[str, Path] | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Validation:
    """Add all chunks up; writes the table of frames and the figures.

    by    columns of a catalog, and its file, that frames are grouped by, besides scene and camera
    tell  is called with the number of chunks that are added

    Raises InputError if a column isn't in its catalog.
    """
    import duckdb
    import numpy as np

    about = directory.about
    matrix = np.zeros((len(about.names), len(about.names)), dtype=np.int64)
    unfinished = directory.path / ".frames.duckdb"
    unfinished.unlink(missing_ok=True)
    connection = duckdb.connect(str(unfinished), config={"memory_limit": MEMORY, "threads": 2})
    try:
        table = _FrameTable(connection, about)
        for number in range(len(chunks)):
            chunk = directory.chunk(number)
            assert chunk is not None
            for true, predicted, pixels in chunk.confusion:
                matrix[true, predicted] += pixels
            table.add(chunk, chunks.frames(number))
            tell(number + 1)
        table.write()
        parquet = directory.path / f".{FRAMES}.tmp"
        connection.execute(f"COPY frames TO '{_quoted(parquet)}' (FORMAT parquet, COMPRESSION zstd)")
        parquet.replace(directory.path / FRAMES)
        result = table.result(matrix, by or {})
    finally:
        connection.close()
        unfinished.unlink(missing_ok=True)
    return result


class _FrameTable:
    """The frames in a table of their own, with three columns per class: right, true, predicted."""

    def __init__(self, connection: DuckDBPyConnection, about: ValidationAbout) -> None:
        self.connection, self.about = connection, about
        self.columns = of_names(about.names).columns
        counts = [f"{name}_{what}" for name in self.columns for what in ("right", "true", "predicted")]
        self.counts = counts
        fixed = ", ".join(f"{name} {kind}" for name, kind in _FIXED)
        connection.execute("SET enable_progress_bar = false")
        each = ", ".join(f'"{name}" INTEGER' for name in counts)
        connection.execute(f"CREATE TABLE frames ({fixed}, {each})")
        self.rows: list[tuple[tuple[Any, ...], Any]] = []

    def add(self, chunk: ValidatedChunk, frames: Sequence[Any]) -> None:
        """A chunk's frames, with what the manifest says of them."""
        import numpy as np

        classes, first = len(self.about.names), chunk.chunk * self.about.chunk_frames
        for frame in chunk.frames:
            counts = np.zeros((classes, 3), dtype=np.int32)
            for name, *three in frame.classes:
                counts[name] = three
            frame_scores = scores(counts)
            figures = (frame_scores.accuracy.value, frame_scores.mean_iou.value, frame.entropy)
            pixels = int(counts[:, 1].sum()) + frame.unknown
            self._row(frame.index, frames[frame.index - first], None, pixels, frame.unknown, figures, counts)
        for index, why in chunk.unreadable:
            self._row(index, frames[index - first], why, None, None, (None, None, None), None)
        if len(self.rows) >= ROWS_AT_ONCE:
            self.write()

    def _row(self, index: int, frame: Any, why: str | None, *rest: Any) -> None:
        pixels, unknown, figures, counts = rest
        parts = frame.label.split("/")
        camera = parts[2] if len(parts) > 3 else ""
        row = (index, frame.label, frame.image, parts[0], camera, why, pixels, unknown, *figures)
        self.rows.append((row, counts))

    def write(self) -> None:
        """Write the rows that are not in the table yet."""
        import numpy as np

        if not self.rows:
            return
        none = np.full((len(self.about.names), 3), -1, dtype=np.int32)
        self.rows.sort(key=lambda row: row[0][0])  # whole chunks: the table is in the order of the frames
        rows, pixels = zip(*self.rows, strict=True)
        counts = np.stack([none if matrix is None else matrix for matrix in pixels]).reshape(len(rows), -1)
        columns = dict(zip((name for name, _ in _FIXED), zip(*rows, strict=True), strict=True))
        added: dict[str, Any] = {
            name: np.array(columns[name], dtype=object if kind == "VARCHAR" else float)
            for name, kind in _FIXED
        }
        added |= {name: counts[:, index] for index, name in enumerate(self.counts)}
        fixed = [
            f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END" if kind in ("DOUBLE", "BIGINT") else name
            for name, kind in _FIXED
        ]
        each = ", ".join(f'nullif("{name}", -1)' for name in self.counts)
        self.connection.register("added", added)
        self.connection.execute(
            f"INSERT INTO frames SELECT {', '.join(fixed)}, "  # noqa: S608 - columns of ours
            f"{each} FROM added"
        )
        self.connection.unregister("added")
        self.rows = []

    def result(self, matrix: Any, by: Mapping[str, Path]) -> Validation:
        """The figures of all frames."""
        about = self.about
        scenes = [counts for _, _, counts in self._sums("scene", "frames")]
        whole = scores_of_scenes(scenes) if scenes else scores([[0, 0, 0]] * len(about.names))
        groups, more = self._groups(by)
        validated, unreadable, unknown = self._first_row(
            "SELECT count(pixels), count(unreadable), coalesce(sum(unknown), 0)::BIGINT FROM frames"
        )
        named = self.connection.execute(
            "SELECT label, unreadable FROM frames WHERE unreadable IS NOT NULL ORDER BY number LIMIT ?",
            [MOST_NAMED],
        ).fetchall()
        return Validation(
            about,
            validated,
            unreadable,
            tuple((label, why) for label, why in named),
            tuple(self._classes(matrix, whole, scenes)),
            tuple(tuple(int(n) for n in row) for row in matrix),
            unknown,
            len(scenes),
            whole.mean_iou.value,
            whole.mean_iou.low,
            whole.mean_iou.high,
            whole.accuracy.value,
            whole.accuracy.low,
            whole.accuracy.high,
            tuple(groups),
            tuple(more),
            tuple(self._worst()),
        )

    def _classes(
        self, matrix: Any, whole: SegmentationScores, scenes: Sequence[Any]
    ) -> Iterator[ClassResult]:
        for index, (name, column) in enumerate(zip(self.about.names, self.columns, strict=True)):
            iou, row, predicted = whole.ious[index], matrix[index], matrix[:, index]
            there = sum(1 for counts in scenes if counts[index][1] > 0)
            pixels = int(row[index]), int(row.sum()), int(predicted.sum())
            yield ClassResult(name, column, *pixels, there, iou.value, iou.low, iou.high)

    def _groups(self, by: Mapping[str, Path]) -> tuple[list[GroupResult], list[str]]:
        results, more = [], []
        tables = {"scene": "frames", "camera": "frames"}
        tables |= {column: self._joined(column, catalog) for column, catalog in by.items()}
        for column, table in tables.items():
            groups = []
            for value, frames, counts in self._sums(column, table):
                group_scores = scores(counts)
                ious = tuple(iou.value for iou in group_scores.ious)
                figures = group_scores.mean_iou.value, group_scores.accuracy.value
                groups.append(GroupResult(column, value, frames, *figures, ious))
            if len(groups) > MOST_GROUPS:
                more.append(column)
                groups.sort(key=lambda group: 2.0 if group.mean_iou is None else group.mean_iou)
            results += groups[:MOST_GROUPS]
        return results, more

    def _joined(self, column: str, catalog: Path) -> str:
        """A table of frames with a column of a catalog. Raises InputError if it has no such column."""
        from assay.data.catalog import reading

        with reading(catalog) as opened:
            known = [name for name, *_ in opened.connection.execute("DESCRIBE frames").fetchall()]
        if column not in known:
            raise InputError(f"{catalog} has no column {column!r}; expected one of {', '.join(known)}")
        self.connection.execute(f"ATTACH IF NOT EXISTS '{_quoted(catalog)}' AS catalog (READ_ONLY)")
        own = "" if column in (name for name, _ in _FIXED) else f', c."{column}"'
        name = f"by_{column}"
        self.connection.execute(
            f'CREATE TEMP VIEW "{name}" AS SELECT f.*{own} FROM frames f '  # noqa: S608 - a known column
            "LEFT JOIN catalog.frames c USING (label)"
        )
        return f'"{name}"'

    def _sums(self, column: str, table: str) -> Iterator[tuple[str, int, Any]]:
        """Value, frames, and pixels of each class (classes × 3), sorted by value."""
        import numpy as np

        each = ", ".join(f'coalesce(sum("{name}"), 0)::BIGINT' for name in self.counts)
        rows = self.connection.execute(
            f'SELECT "{column}", count(*), {each} FROM {table} WHERE unreadable IS NULL '  # noqa: S608
            "GROUP BY 1 ORDER BY 1"
        )
        while row := rows.fetchone():
            value = "(none)" if row[0] is None else str(row[0])
            yield value, row[1], np.array(row[2:], dtype=np.int64).reshape(-1, 3)

    def _worst(self) -> Iterator[FrameResult]:
        rows = self.connection.execute(
            "SELECT number, label, image, scene, camera, mean_iou, pixel_accuracy, entropy_bits FROM frames "
            "WHERE unreadable IS NULL ORDER BY mean_iou NULLS LAST, number LIMIT ?",
            [WORST],
        )
        return (FrameResult(*row) for row in rows.fetchall())

    def _first_row(self, text: str) -> tuple[Any, ...]:
        row = self.connection.execute(text).fetchone()
        assert row is not None
        return tuple(row)


def most_uncertain(path: Path, labels: Iterable[str]) -> list[tuple[str, float]]:
    """The labels that a validation has read, with their entropy in bits, the most uncertain first.

    Raises InputError if the directory has no finished validation.
    """
    import duckdb

    file = path / FRAMES
    if not file.is_file():
        raise InputError(f"{path}: has no {FRAMES}; finish it with `assay data validate … --into {path}`")
    label_set = {*labels}
    try:
        with duckdb.connect() as connection:
            rows = connection.execute(
                "SELECT label, entropy_bits FROM read_parquet(?) WHERE entropy_bits IS NOT NULL "
                "ORDER BY entropy_bits DESC, label",
                [str(file)],
            ).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{file}: can't be read: {str(error).splitlines()[0]}") from None
    return [(label, entropy) for label, entropy in rows if label in label_set]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")

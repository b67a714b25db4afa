"""What the frames of a catalog show: over all, together, and by scene."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from assay.data import queries
from assay.data.catalog import reading
from assay.data.queries import ClassShare, SceneDrift
from assay.data.questions import ABOUT_CATALOG, CATALOG, CATALOG_VARIABLE
from assay.errors import EXIT_OK, EXIT_WORSE
from assay.questions.question import Answer, Question, argument, option, question
from assay.questions.values import File
from assay.view.blocks import Block, Paragraph, Table, TableBody, TableRow


@question
class DataClasses(Question):
    """Show how much of each class the frames of a catalog have.

    CONDITION chooses frames, as for `assay data query`. A share is of all pixels of these frames.
    `--scenes` compares each scene's shares with those of all frames: the Jensen-Shannon distance is 0 if they
    are alike, and 1 if they have no class in common.

    \b
    Examples:
      assay data classes
      assay data classes 'camera = cam_front_center'
      assay data classes --together car,bicycle,pedestrian
      assay data classes --scenes

    \b
    Exit codes: 0 shown; 1 no frame satisfies the condition; 4 the condition, a class or the catalog is wrong.
    """

    where: str = argument(default="", metavar="[CONDITION]")
    catalog: File = option(ABOUT_CATALOG, default=CATALOG, variable=CATALOG_VARIABLE)
    together: str | None = option(
        "Frames that show both of two: car,bicycle,pedestrian.", default=None, metavar="CLASSES"
    )
    scenes: bool = option("How far each scene is from all frames.", default=False)

    def __post_init__(self) -> None:
        if self.together is not None and self.scenes:
            raise ValueError("--together and --scenes are two questions; ask one")

    def answer(self) -> ClassShares | ClassPairs | SceneDrifts:
        """Shares of the classes, frames with pairs of them, or what differs between scenes."""
        if self.together is not None:
            classes = [name.strip() for name in self.together.split(",")]
            return ClassPairs(classes, classes_together(classes, self.where, catalog=self.catalog))
        if self.scenes:
            return SceneDrifts(scene_drift(self.where, catalog=self.catalog))
        return ClassShares(*class_shares(self.where, catalog=self.catalog))


def class_shares(where: str = "", *, catalog: str | PathLike[str] = CATALOG) -> tuple[int, list[ClassShare]]:
    """The number of frames that satisfy a condition, and each class over them, like `assay data classes`.

    Raises InputError for a wrong condition.
    """
    with reading(Path(catalog)) as opened:
        return queries.shares(opened, where)


def classes_together(
    classes: Sequence[str], where: str = "", *, catalog: str | PathLike[str] = CATALOG
) -> list[list[int]]:
    """How many frames show both of two classes, for each pair of the given ones.

    Raises InputError for a class that the catalog does not have, or a wrong condition.
    """
    with reading(Path(catalog)) as opened:
        return queries.together(opened, classes, where)


def scene_drift(where: str = "", *, catalog: str | PathLike[str] = CATALOG) -> list[SceneDrift]:
    """How far each scene's classes are from those of all frames, like `assay data classes --scenes`.

    Raises InputError for a wrong condition.
    """
    with reading(Path(catalog)) as opened:
        return queries.drift(opened, where)


@dataclass(frozen=True)
class ClassShares(Answer):
    """Each class over this many frames."""

    frames: int
    shares: Sequence[ClassShare]

    @property
    def exit_code(self) -> int:
        """1 if there is no frame."""
        return EXIT_OK if self.frames else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """A row for each class, and the number of frames."""
        yield self.table()
        yield Paragraph(f"{self.frames:,} frames")

    def table(self, caption: str = "") -> Table:
        """A row for each class."""
        rows = [
            (share.name, share.column, f"{share.share:.3%}", f"{share.frames:,}", f"{share.largest:.2%}")
            for share in self.shares
        ]
        columns = ("class", "in a condition", "share of pixels", "frames", "largest in a frame")
        return _table(columns, rows, frozenset({0, 1}), caption)

    def document(self) -> dict[str, Any]:
        """Classes over frames."""
        return {"frames": self.frames, "classes": [asdict(share) for share in self.shares]}


@dataclass(frozen=True)
class ClassPairs(Answer):
    """How many frames show both of two classes: a row and a column for each."""

    classes: Sequence[str]
    frames: Sequence[Sequence[int]]

    def view(self) -> Iterator[Block]:
        """A row for each class."""
        rows = [
            (name, *(f"{count:,}" for count in row))
            for name, row in zip(self.classes, self.frames, strict=True)
        ]
        yield _table(("", *self.classes), rows, frozenset({0}))

    def document(self) -> dict[str, Any]:
        """Classes and frames."""
        return {"classes": self.classes, "frames": self.frames}


@dataclass(frozen=True)
class SceneDrifts(Answer):
    """How far each scene is from all frames."""

    scenes: Sequence[SceneDrift]

    def view(self) -> Iterator[Block]:
        """A row for each scene."""
        columns = ("scene", "frames", "distance", "at random", "differs most in", "share there", "of all")
        rows = [
            (
                *(drift.scene, f"{drift.frames:,}", f"{drift.distance:.3f}", f"{drift.at_random:.3f}"),
                *(drift.class_, f"{drift.share:.2%}", f"{drift.of_all:.2%}"),
            )
            for drift in self.scenes
        ]
        yield _table(columns, rows, frozenset({0, 4}))
        yield Paragraph(
            "At random: 19 of 20 random sets of as many frames are at most this far from all frames"
        )

    def document(self) -> dict[str, Any]:
        """Each scene."""
        return {"scenes": [asdict(drift) for drift in self.scenes]}


def _table(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], text_columns: frozenset[int], caption: str = ""
) -> Table:
    return Table(caption, columns, (TableBody("", tuple(map(TableRow, rows))),), text_columns, whole=True)

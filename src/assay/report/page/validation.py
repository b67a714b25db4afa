"""The pages of labelled data: a grid of chosen frames, and a validation with its figures and worst frames."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from assay.records import ConfusionMatrix
from assay.report import figures
from assay.report.charts.chart import Chart
from assay.report.charts.classes import NamedShare, matrix_chart, share_bars
from assay.report.page.document import document, numbered
from assay.units import counted
from assay.view.blocks import Table, TableBody, TableRow

MOST_ROWS = 500  # of a table of groups, the worst first


@dataclass(frozen=True)
class GroupScores:
    """Frames with the same value of a column; figures None if they aren't defined."""

    column: str
    value: str
    frames: int
    mean_iou: float | None
    pixel_accuracy: float | None


@dataclass(frozen=True)
class ValidationReport:
    """One validation.

    classes     that labels have, with their IoU
    absent      classes that no label has
    unreadable  frames that don't count, and why; `unreadable_count` of them in all
    pictures    of the worst frames; `no_pictures` says why there are none
    about       where it is from, as (name, value) pairs
    """

    title: str
    frames: int
    scenes: int
    mean_iou: NamedShare | None
    pixel_accuracy: NamedShare | None
    classes: Sequence[NamedShare]
    absent: Sequence[str]
    matrix: ConfusionMatrix
    groups: Sequence[GroupScores]
    unreadable_count: int
    unreadable: Sequence[tuple[str, str]]
    pictures: Sequence[FramePictures]
    no_pictures: str
    about: Sequence[tuple[str, str]]


def html(report: ValidationReport) -> str:
    """The complete page."""
    return document(
        "validation.html",
        pictures=True,
        kicker="Assay validation",
        title=report.title,
        report=report,
        unreadable=counted(report.unreadable_count, "frame"),
        lead=_lead(report),
        about=report.about,
        sections=_sections(report),
        charts=numbered(_charts(report)),
        tables=_tables(report),
    )


def _lead(report: ValidationReport) -> str:
    frames = f"{counted(report.frames, 'frame')} of {counted(report.scenes, 'scene')}"
    if report.mean_iou is None or report.pixel_accuracy is None:
        return f"{frames}: no label has a class of this network, so no figure is defined."
    worst = min(report.classes, key=lambda share: share.value)
    return (
        f"Mean IoU {report.mean_iou.words()} over {frames}; pixel accuracy {report.pixel_accuracy.words()}. "
        f"The worst class is {worst.name}: IoU {figures.percent(worst.value)}."
    )


def _sections(report: ValidationReport) -> list[tuple[str, str]]:
    present = {
        "frames": ("Worst frames", True),
        "charts": ("Charts", bool(report.classes)),
        "numbers": ("Numbers", True),
        "unreadable": ("Frames that can't be read", bool(report.unreadable)),
    }
    return [(name, title) for name, (title, there) in present.items() if there]


def _charts(report: ValidationReport) -> list[Chart]:
    if not report.classes:
        return []
    ordered = sorted(report.classes, key=lambda share: -share.value)
    intervals = any(share.low is not None for share in ordered)
    more = ", with 95 % intervals over scenes" if intervals else "; no intervals: they need 8 scenes"
    return [
        share_bars("iou", f"IoU of each class{more}", "intersection over union", ordered),
        matrix_chart(report.matrix, "Predicted class for each true class, in % of its pixels"),
    ]


def _tables(report: ValidationReport) -> list[Table]:
    rows = tuple(
        TableRow((share.name, share.words()))
        for share in sorted(report.classes, key=lambda share: share.value)
    )
    rows += tuple(TableRow((name, "in no label")) for name in report.absent)
    tables = [Table("Classes, the worst first", ("", "IoU"), (TableBody("", rows),), frozenset({0, 1}))]
    for column in dict.fromkeys(group.column for group in report.groups):
        groups = [group for group in report.groups if group.column == column]
        groups.sort(key=lambda group: 2.0 if group.mean_iou is None else group.mean_iou)
        more = f", {MOST_ROWS} of them" if len(groups) > MOST_ROWS else ""
        tables.append(
            Table(
                f"By {column}, the worst first{more}",
                ("", "frames", "mean IoU", "pixel accuracy"),
                (TableBody("", tuple(map(_group_row, groups[:MOST_ROWS]))),),
            )
        )
    return tables


def _group_row(group: GroupScores) -> TableRow:
    shares = (group.mean_iou, group.pixel_accuracy)
    texts = (figures.NONE if share is None else figures.percent(share) for share in shares)
    return TableRow((group.value or "(none)", f"{group.frames:,}", *texts))


def frames_html(
    query: str, frames: int, pictures: Sequence[FramePictures], about: Sequence[tuple[str, str]]
) -> str:
    """The complete page.

    query   how the frames were chosen
    frames  of all; the pictures may be of some
    """
    shown = "" if len(pictures) == frames else f"; {len(pictures):,} of them are shown"
    return document(
        "frames.html",
        pictures=True,
        kicker="Assay data query",
        title=query,
        lead=f"{counted(frames, 'frame')}{shown}.",
        about=about,
        sections=[("frames", "Frames")],
        pictures_of=pictures,
    )


@dataclass(frozen=True)
class Picture:
    """One picture: JPEG, and what it shows, for who can't see it."""

    words: str
    jpeg: bytes

    @property
    def url(self) -> str:
        """The picture itself, as an address."""
        return f"data:image/jpeg;base64,{base64.b64encode(self.jpeg).decode()}"


@dataclass(frozen=True)
class FramePictures:
    """A frame: its label's path, what there is to say, and its pictures side by side."""

    label: str
    words: str
    pictures: tuple[Picture, ...]

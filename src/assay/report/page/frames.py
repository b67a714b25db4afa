"""The HTML page of chosen frames: a grid of pictures."""

from __future__ import annotations

from collections.abc import Sequence

from assay.report.page.document import document
from assay.report.page.pictures import FramePictures
from assay.units import counted


def html(query: str, frames: int, pictures: Sequence[FramePictures], about: Sequence[tuple[str, str]]) -> str:
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

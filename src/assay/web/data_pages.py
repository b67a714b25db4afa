"""A catalog of labelled frames: what they show, and pictures of those that a condition chooses."""

from __future__ import annotations

from collections.abc import Iterator

from litestar import Response, get

from assay.data.pages import about_manifest, frame_pictures, frames_section
from assay.data.questions.classes import ClassShares, class_shares
from assay.data.questions.query import query_data
from assay.units import counted, human
from assay.view.blocks import Block, Heading, Lead, Paragraph, facts_of
from assay.view.charts.classes import NamedShare, share_bars
from assay.web.queries import FormField, Name, QuestionForm, some
from assay.web.rendering import with_query
from assay.web.session_pages import command_line
from assay.web.site import Site

MOST_PICTURES = 24  # of a page: about 1 MB
MOST_BARS = 40
NO_CATALOG = (
    "`assay data scan DIRECTORY` makes a catalog of labelled frames; `assay serve --catalog` shows one."
)


@get("/data", sync_to_thread=True, include_in_schema=False)
def data_set(site: Site, where: Name = None) -> Response[str]:
    """The classes of a data set and the first frames, like `assay data classes` and `assay data query`."""
    condition = some(where) or ""
    form = QuestionForm(
        "/data",
        "Data set",
        "Show",
        NO_CATALOG,
        [FormField("where", "Condition", condition, "road_blocks > 1% and camera = front", wide=True)],
    )
    options = {"--catalog": str(site.catalog)}

    def answer() -> Iterator[Block]:
        count, shares = class_shares(condition, catalog=site.catalog)
        manifest = query_data(condition, catalog=site.catalog)
        pictures, why = frame_pictures(manifest, MOST_PICTURES)
        bars = [NamedShare(share.name, share.share) for share in shares if share.frames][:MOST_BARS]
        shown = f" {len(pictures)} of them are shown." * bool(pictures)
        yield Lead(f"{counted(count, 'frame')}, {human(float(manifest.bytes), 'B')}.{shown}")
        yield facts_of(about_manifest(manifest))
        if bars:
            yield Heading("Charts", "charts")
            yield share_bars("shares", "Share of all pixels", "share", bars)
        if pictures:
            yield from frames_section(pictures)
        yield Heading("Numbers", "numbers")
        yield ClassShares(count, shares).table("Classes, the largest first")
        if why:
            yield Paragraph(why, "dim")

    arguments = [condition] if condition else []
    return form.answer(
        answer if site.catalog.is_file() else None,
        command=command_line("data", "classes", *arguments, **options),
        actions=[("As JSON", with_query("/api/v1/data/classes", where=condition))] * site.catalog.is_file(),
    )

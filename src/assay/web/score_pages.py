"""MLPerf logs in the folders that the server was started with, scored by the rules of their round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os.path import commonpath
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from litestar import Response, get
from litestar.exceptions import NotFoundException

from assay.errors import InputError
from assay.questions.score_pages import score_page, score_set
from assay.units import counted
from assay.view import figures
from assay.view.blocks import Bullets, Heading, Lead, Link, Paragraph
from assay.view.scores import runs_table, verdict
from assay.web.queries import Name, PageNumber, page_links, some
from assay.web.rendering import blocks_page, page, with_query
from assay.web.session_pages import command_line
from assay.web.site import Site

HINT = "Start the server with `--mlperf DIRECTORY` to see the scores of the MLPerf logs below it."


@get("/scores", sync_to_thread=True, include_in_schema=False)
def folders(site: Site) -> Response[str]:
    """The folders."""
    if not site.folders:
        return blocks_page([Paragraph(HINT)], here="/scores", title="MLPerf scores")
    links = Bullets(tuple(Link(name, f"/scores/{name}") for name in site.folders))
    title = Heading(counted(len(site.folders), "folder"), "folders")
    return blocks_page([title, links], here="/scores", title="MLPerf scores", sections=())


@get("/scores/{folder:str}", sync_to_thread=True, include_in_schema=False)
def scores(site: Site, folder: str, q: Name = None, number: PageNumber = 1) -> Response[str]:
    """The sets of a folder with their scores, a page at a time, like `assay score`."""
    path, search = _folder(site, folder), some(q)
    sets_page = score_page(path, words=search or "", number=number)
    here = _url(folder)
    short = dict(zip(sets_page.names, _short(sets_page.names), strict=True))
    return page(
        "scores.html",
        here="/scores",
        kicker="MLPerf scores",
        title=folder,
        form_here=here,
        q=search or "",
        found=sets_page,
        rows=[_row(_url(folder, scored.name), short[scored.name], scored) for scored in sets_page.sets],
        pages=page_links(
            sets_page.number,
            sets_page.pages,
            lambda page_number: with_query(here, q=search, number=page_number),
        ),
        command=command_line("score", str(path)),
        actions=[("All folders", "/scores"), ("As JSON", with_query("/api/v1/scores", folder=folder))],
    )


@get("/scores/{folder:str}/{name:path}", sync_to_thread=True, include_in_schema=False)
def scored_set(site: Site, folder: str, name: str) -> Response[str]:
    """A set with its score, its runs and its doubts."""
    path, name = _folder(site, folder), name.removeprefix("/")
    try:
        scored, directory = score_set(path, name)
    except InputError as error:
        raise NotFoundException(str(error)) from error
    notes = [f"{run.file}: {run.problem}" for run in scored.runs if run.problem]
    notes += [f"{doubt.code}: {doubt.evidence}. {doubt.remedy}." for doubt in scored.doubts]
    return blocks_page(
        [
            Lead(f"{verdict(scored).capitalize()}."),
            Heading("Numbers", "numbers"),
            replace(runs_table(scored.runs), caption="Runs"),
            *(Paragraph(note, "dim") for note in notes),
        ],
        here="/scores",
        kicker=" · ".join(filter(None, (scored.benchmark, scored.round, scored.system))),
        title=name,
        sections=(),
        command=command_line("score", str(directory)),
        actions=[("All sets", _url(folder))],
    )


def _folder(site: Site, name: str) -> Path:
    path = site.folder(name)
    if path is None:
        raise NotFoundException(f"There is no folder {name} of MLPerf logs here.")
    return path


def _url(folder: str, name: str = "") -> str:
    return f"/scores/{quote(folder)}" + (f"/{quote(name)}" if name else "")


def _short(names: Sequence[str]) -> list[str]:
    """Paths without the directories that all have: rows would begin alike, and differ where they are cut."""
    paths = [PurePosixPath(name) for name in names]
    shared = commonpath([path.parent for path in paths]) if paths else ""
    return [str(path.relative_to(shared)) for path in paths]


def _row(url: str, name: str, scored: Any) -> dict[str, Any]:
    score = scored.score
    return {
        "url": url,
        "name": name,
        "score": _figure(score.minutes, ".3f"),
        "scaled": _figure(score.scaled if scored.scaling_factor != 1 else None, ".3f"),
        "mean": _figure(score.mean, ".3f"),
        "converged": f"{score.converged} of {score.runs}",
        "benchmark": scored.benchmark or "unknown",
        "round": scored.round or "unknown",
        "doubts": tuple(dict.fromkeys(doubt.code for doubt in scored.doubts)),
    }


def _figure(value: float | None, form: str) -> str:
    return figures.NONE if value is None else format(value, form)

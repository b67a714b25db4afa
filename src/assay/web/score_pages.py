"""MLPerf logs in the folders that the server was started with, scored by the rules of their round."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonpath
from pathlib import PurePosixPath
from typing import Any

from litestar import Response, get
from litestar.exceptions import NotFoundException

from assay.api.scores import Scores, score
from assay.report import figures
from assay.report.tables import Table, TableBody, TableRow
from assay.report.terminal.scores import verdict
from assay.units import counted
from assay.web.rendering import page, with_query
from assay.web.session_pages import command_line
from assay.web.site import Site

HINT = "Start the server with `--mlperf DIRECTORY` to see the scores of the MLPerf logs below it."
_COLUMNS = ("", "status", "minutes", "epochs", "samples/s", "batch")


@get("/scores", sync_to_thread=True, include_in_schema=False)
def folders(site: Site) -> Response[str]:
    """The folders."""
    return page(
        "question.html",
        here="/scores",
        title="MLPerf scores",
        lead="" if site.folders else HINT.replace("`", ""),
        links=[(name, f"/scores/{name}") for name in site.folders],
        links_title=counted(len(site.folders), "folder"),
    )


@get("/scores/{folder:str}", sync_to_thread=True, include_in_schema=False)
def scores(site: Site, folder: str) -> Response[str]:
    """Each set of a folder with its score, its runs and its doubts, like `assay score`."""
    path = site.folder(folder)
    if path is None:
        raise NotFoundException(f"There is no folder {folder} of MLPerf logs here.")
    found = score(path)
    names = _short([one.name for one in found])
    return page(
        "question.html",
        here="/scores",
        kicker="MLPerf scores",
        title=folder,
        lead=f"{counted(len(found), 'set')} of training logs.",
        tables=_tables(names, found),
        notes=[
            f"{name}: {doubt.code}: {doubt.evidence}. {doubt.remedy}"
            for name, one in zip(names, found, strict=True)
            for doubt in one.doubts
        ],
        command=command_line("score", str(path)),
        actions=[("All folders", "/scores"), ("As JSON", with_query("/api/v1/scores", folder=folder))],
    )


def _short(names: Sequence[str]) -> list[str]:
    """Paths without the directories that all have: rows would begin alike, and differ where they are cut."""
    paths = [PurePosixPath(name) for name in names]
    shared = commonpath([path.parent for path in paths]) if paths else ""
    return [str(path.relative_to(shared)) for path in paths]


def _tables(names: Sequence[str], found: Scores) -> Sequence[Table]:
    named = tuple(zip(names, found, strict=True))
    rows = tuple(
        TableRow((name, one.benchmark or "unknown", one.round or "unknown", one.system or "", verdict(one)))
        for name, one in named
    )
    columns = ("", "benchmark", "round", "system", "score")
    every = Table("Sets", columns, (TableBody("", rows),), frozenset(range(5)))
    bodies = tuple(TableBody(name, tuple(map(_run, one.runs))) for name, one in named if one.runs)
    return [every, Table("Runs", _COLUMNS, bodies, frozenset({0, 1}))] if bodies else [every]


def _run(run: Any) -> TableRow:
    cells = (
        _figure(run.minutes, ".3f"),
        _figure(run.epochs, ".4g"),
        _figure(run.samples_per_s, ",.1f"),
        _figure(run.global_batch_size, ","),
    )
    status = f"{run.status}: {run.problem}" if run.problem else run.status
    return TableRow((run.file, status, *cells))


def _figure(value: float | None, form: str) -> str:
    return figures.NONE if value is None else format(value, form)

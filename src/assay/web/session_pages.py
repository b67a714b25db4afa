"""A session as its report shows it, one run, and its logs."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.response import Redirect

from assay.questions.report import report
from assay.questions.run_logs import read_log, run_logs, search_log
from assay.questions.show import RunDetails, show
from assay.rundir.log_pages import MOST_LINES, LogLine
from assay.rundir.session import Session
from assay.view import figures
from assay.view.blocks import Block, Bullets, Heading, Link
from assay.view.contents import Contents
from assay.view.report import footer, report_blocks
from assay.view.sweep import FOOTER, SweepReport
from assay.web.live import followed
from assay.web.queries import Attempt, Line, Name, some
from assay.web.rendering import blocks_page, log_url, page, session_url, with_query
from assay.web.site import Site

MOST_LINKED = 200  # runs, those that failed first; the list of runs has all
MOST_NODES = 200  # with a link to their history, the slowest
ShownLine = tuple[LogLine, list[tuple[str, bool]]]
"""A line, and its text in parts; whether a part was searched for."""
LINES_BEFORE = 10  # a linked line, so that it is not the first on its page


@get("/sessions/{suite:str}/{session:str}", sync_to_thread=True, include_in_schema=False)
def session(
    site: Site, suite: str, session: str, margin: Name = None, baseline: Name = None
) -> Response[str]:
    """The report of a session, in the frame of the site."""
    name = f"{suite}/{session}"
    _must_exist(site.runs, name)
    session_report = report(
        name, margin=some(margin), baseline=some(baseline), with_identity=True, runs=site.runs
    )
    options = {"--margin": some(margin), "--baseline": some(baseline)}
    about = session_report.about
    blocks, end, kicker, data = (
        (_sweep_blocks(about, suite), FOOTER, "Assay sweep", "sweep")
        if isinstance(about, SweepReport)
        else (report_blocks(with_run_links(about)), footer(about), "Session", "show")
    )
    is_open = Session(site.runs / name).header.finished_at is None
    return blocks_page(
        blocks,
        title=name,
        kicker=kicker,
        footer=end,
        command=command_line("report", name, **options),
        actions=[
            ("Compare with another", with_query("/compare", a=name)),
            ("Its runs", with_query("/runs", suite=suite, q=session, trials="true")),
            ("As JSON", with_query(f"/api/v1/{data}", run=name)),
        ],
        **(followed(site, name) | {"as_of": time.time()} if is_open else {}),
    )


@get("/sessions/{suite:str}", sync_to_thread=True, include_in_schema=False)
def suite(site: Site, suite: str) -> Redirect:
    """What is left of a session's address without the session: the list of the suite's sessions."""
    _must_exist(site.runs, suite)
    return Redirect(with_query("/runs", suite=suite))


def with_run_links(contents: Contents) -> Contents:
    """The same with links to runs' pages in place of copied logs."""
    results = [result for side in contents.sides.values() for result in side]
    linked = sorted(results, key=lambda result: result.counts)[:MOST_LINKED]
    links = {result.run.id: {"page and logs": session_url(result.run.id)} for result in linked}
    return replace(contents, logs=links)


def _sweep_blocks(swept: SweepReport, suite: str) -> Iterator[Block]:
    """A sweep's report, with an address for the history of each node, the slowest first."""
    yield from swept.blocks()
    if swept.verdicts.nodes:
        yield Heading("Each node over sweeps", "histories")
    for measurement in swept.verdicts.nodes:
        point = measurement.point
        yield Heading(f"{point.benchmark} {figures.metric(point.metric)}")
        about = {"metric": point.metric, "suite": suite, "benchmark": point.benchmark}
        yield Bullets(
            tuple(
                Link(swept.verdicts.hosts[node.node][0], with_query("/history", **about, system=node.node))
                for node in measurement.crowd.standings[:MOST_NODES]
            )
        )


def command_line(*arguments: str, **options: str | None) -> str:
    """The command that answers the same, quoted for a shell."""
    given_options = [part for name, value in options.items() if value for part in (name, value)]
    return shlex.join(["assay", *arguments, *given_options])


@get("/sessions/{suite:str}/{session:str}/{trial:str}", sync_to_thread=True, include_in_schema=False)
def run(site: Site, suite: str, session: str, trial: str, attempt: Attempt = None) -> Response[str]:
    """One run: its end, measurements by log line, doubts, machines and logs."""
    name = f"{suite}/{session}/{trial}"
    _must_exist(site.runs, name)
    details = show(name, runs=site.runs)
    logs = run_logs(name, attempt=attempt, runs=site.runs)
    [result, *_] = details.runs.results
    return page(
        "run.html",
        title=trial,
        kicker="Run",
        about=_about(details),
        command=command_line("show", name),
        actions=[
            ("Its session", session_url(f"{suite}/{session}")),
            ("As JSON", with_query("/api/v1/show", run=name)),
        ],
        result=result,
        logs=logs,
        is_last=logs.attempt == max(logs.attempts),
        attempts=[(number, with_query(session_url(name), attempt=number)) for number in logs.attempts],
        measurements=[
            (m, figures.labels(m.labels), log_url(name, m.file, line=m.line) if m.file in logs.bytes else "")
            for m in result.reading.measurements
        ],
        doubts=details.doubts,
        nodes=_nodes(details),
    )


def _about(details: RunDetails) -> list[tuple[str, str]]:
    run = details.runs.results[0].run
    about = [
        ("State", run.state.value),
        ("System", run.trial.system),
        ("Benchmark", run.trial.benchmark),
        ("Shape", str(run.trial.shape)),
        ("Attempt", str(run.attempt)),
    ]
    return about + [("Nodes", ", ".join(dict.fromkeys(filter(None, run.places))))] * any(run.places)


def _nodes(details: RunDetails) -> list[tuple[str, Mapping[str, Any]]]:
    """Facts of each node, sorted by name."""
    provenance = details.runs.results[0].provenance
    tables = () if provenance is None else provenance.nodes
    return [
        (str(table.get("host", f"node {index}")), dict(sorted(table.items())))
        for index, table in enumerate(tables)
    ]


@get(
    "/sessions/{suite:str}/{session:str}/{trial:str}/logs/{log:str}",
    sync_to_thread=True,
    include_in_schema=False,
)
def log(
    site: Site,
    suite: str,
    session: str,
    trial: str,
    log: str,
    attempt: Attempt = None,
    line: Line = 1,
    q: Name = None,
    around: Name = None,
) -> Response[str]:
    """Lines of a log, or those that contain the words; a long line that was searched, around its words."""
    name, search = f"{suite}/{session}/{trial}", some(q)
    _must_exist(site.runs, name)
    here = session_url(f"{name}/logs/{log}")
    logs = run_logs(name, attempt=attempt, runs=site.runs)
    if log not in logs.bytes:
        raise NotFoundException(f"{name}: attempt {logs.attempt} has no log {log}.")
    first = max(1, line - LINES_BEFORE) if line > 1 else 1
    shown: dict[str, Any] = {
        "title": log,
        "kicker": f"Log of {name}, attempt {logs.attempt}",
        "q": search or "",
        "attempt": attempt,
        "here": here,
    }
    actions = [("Its run", with_query(session_url(name), attempt=attempt))]

    def address_of(number: int | None, **more: Any) -> str:
        return with_query(here, attempt=attempt, line=number, **more)

    if search is not None:
        matches = search_log(name, log, search, first=line, attempt=attempt, runs=site.runs)
        pages = [] if matches.next_line is None else [("Search on", address_of(matches.next_line, q=search))]
        return page(
            "log.html", **shown, actions=actions, pages=pages, found=matches,
            lines=[
                (
                    match,
                    f"{address_of(match.number, around=search * match.is_part)}#L{match.number}",
                    _parts(match, search),
                )
                for match in matches.lines
            ],
        )  # fmt: skip
    part = read_log(name, log, first=first, attempt=attempt, runs=site.runs)
    opened: dict[int, ShownLine] = {}
    if (hit := some(around)) is not None:
        hits = search_log(name, log, hit, first=line, most=1, attempt=attempt, runs=site.runs)
        opened = {match.number: (match, _parts(match, hit)) for match in hits.lines}
    last = part.lines[-1].number if part.lines else 0
    begin = part.lines[0].number if part.lines else 1
    ends = (
        ("First lines", None, begin > 1),
        ("Earlier lines", max(1, begin - MOST_LINES) + LINES_BEFORE, begin > 1),
        ("Later lines", last + 1 + LINES_BEFORE, last < part.total),
        ("Last lines", max(1, part.total - MOST_LINES + 1) + LINES_BEFORE, last < part.total),
    )
    return page(
        "log.html", **shown, actions=actions, part=part,
        pages=[(label, address_of(number)) for label, number, is_there in ends if is_there],
        lines=[
            (text, f"{address_of(text.number)}#L{text.number}", parts)
            for text, parts in (
                opened.get(whole.number, (whole, [(whole.text, False)])) for whole in part.lines
            )
        ],
    )  # fmt: skip


def _parts(line: LogLine, search: str) -> list[tuple[str, bool]]:
    """The line split at what was searched for; whether a part is that."""
    parts = re.split(f"({re.escape(search)})", line.text, flags=re.IGNORECASE)
    return [(part, index % 2 == 1) for index, part in enumerate(parts)]


def _must_exist(runs_dir: Path, name: str) -> None:
    """Raises NotFoundException if no directory of runs has this name."""
    parts = name.split("/")
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts) or not (
        runs_dir.joinpath(*parts).is_dir()
    ):
        what = ("suite", "session", "run")[len(parts) - 1]
        raise NotFoundException(f"There is no {what} {name} here.")

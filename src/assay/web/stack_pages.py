"""Software stacks that runs have observed, and how fast each was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from litestar import Response, get
from litestar.exceptions import NotFoundException

from assay.errors import InputError
from assay.rundir.session import Session, sessions_of
from assay.stacks.known import KnownLevel, KnownStack, list_stacks, show_stack
from assay.units import counted
from assay.view import figures
from assay.view.blocks import (
    Block,
    Bullets,
    Heading,
    Lead,
    Link,
    Paragraph,
    Table,
    TableBody,
    TableRow,
    facts_of,
)
from assay.view.sentences.history import when
from assay.web.queries import FormField, Name, QuestionForm, some
from assay.web.rendering import blocks_page, session_url, with_query
from assay.web.session_pages import command_line
from assay.web.site import Site

SHORT = 8  # characters of a digest that name a stack
_COLUMNS = ("", "on", "value", "95 %", "runs", "sessions", "doubts")


@get("/stacks", sync_to_thread=True, include_in_schema=False)
def stacks(site: Site, package: Name = None, workload: Name = None) -> Response[str]:
    """The stacks, the most recently observed first, like `assay stack show`."""
    only = {"package": some(package), "workload": some(workload)}
    form = QuestionForm(
        "/stacks",
        "Software stacks",
        "Show",
        "",
        [
            FormField("package", "Package", only["package"], "torch>=2.8"),
            FormField("workload", "Workload", only["workload"], "all"),
        ],
    )

    def answer() -> Iterator[Block]:
        listing = list_stacks(package=only["package"], workload=only["workload"], runs=site.runs)
        rows = tuple(
            Link(f"{known.stack.digest[:SHORT]}, {when(known.newest)}, {counted(known.sessions, 'session')}"
             f": {known.title or 'unknown packages'}", f"/stacks/{known.stack.digest}")
            for known in listing.stacks
        )  # fmt: skip
        if rows:
            yield from (Heading(counted(len(rows), "stack"), "stacks"), Bullets(rows))
        else:
            yield Lead("No run has observed such a stack.")
        for why, count in sorted(listing.left_out.items()):
            yield Paragraph(f"{counted(count, 'run')} left out: {why}.", "dim")

    return form.answer(
        answer,
        command=command_line("stack", "show", **{f"--{name}": value for name, value in only.items()}),
        actions=[("As JSON", with_query("/api/v1/stacks", **only))],
    )


@get("/stacks/{digest:str}", sync_to_thread=True, include_in_schema=False)
def stack(site: Site, digest: str) -> Response[str]:
    """One stack: figures with their sessions, failures, packages, like `assay stack show STACK`."""
    try:
        known_stack = show_stack(digest, runs=site.runs)
    except InputError as error:
        raise NotFoundException(str(error)) from error
    links = tuple(Link(*named) for named in sessions_observed(site.runs, known_stack))
    observed: list[Block] = [Heading("Where it was observed", "observed"), Bullets(links)] if links else []
    return blocks_page(
        [
            facts_of([("Digest", known_stack.stack.digest), ("Sessions", str(known_stack.sessions))]),
            Heading("Numbers", "numbers"),
            *_tables(known_stack),
            *observed,
        ],
        here="/stacks",
        kicker="Software stack",
        title=known_stack.title or known_stack.stack.digest[:SHORT],
        sections=(),
        command=command_line("stack", "show", known_stack.stack.digest[:SHORT]),
        actions=[
            ("All stacks", "/stacks"),
            ("As JSON", with_query("/api/v1/stack", stack=known_stack.stack.digest)),
        ],
    )


def _tables(known_stack: KnownStack) -> list[Table]:
    rows = tuple(map(_level, sorted(known_stack.levels, key=lambda level: not level.primary)))
    tables = []
    if rows:
        bodies = (TableBody("", rows),)
        tables.append(Table("Figures, primary ones first", _COLUMNS, bodies, frozenset({0, 1, 6})))
    failures = tuple(
        TableRow(
            (failure.failure or "", str(failure.hardware), when(failure.at), failure.why.partition("\n")[0])
        )
        for failure in known_stack.failures
    )
    if failures:
        tables.append(
            Table("Failures", ("", "on", "when", "why"), (TableBody("", failures),), frozenset({0, 1, 2, 3}))
        )
    parts = {
        "System": known_stack.stack.system,
        "Settings": known_stack.stack.settings,
        "Packages": known_stack.stack.packages,
    }
    software = tuple(
        TableBody(name, tuple(TableRow((key, str(value))) for key, value in part.items()))
        for name, part in parts.items()
        if part
    )
    return [*tables, Table("Software", ("", "value"), software, frozenset({0, 1}))]


def _level(known_level: KnownLevel) -> TableRow:
    estimate = known_level.level.estimate
    unit, (value,) = figures.column([estimate.value], estimate.unit, [figures.half_width(estimate)])
    ends = figures.NONE
    if estimate.low is not None and estimate.high is not None:
        _, (low, high) = figures.column([estimate.low, estimate.high], estimate.unit)
        ends = f"{low} to {high}"
    labels = figures.labels(known_level.metric.labels)
    workload, metric = known_level.workload, known_level.metric
    what = f"{workload.workload} {workload.shape}: {metric.name} {labels}".rstrip()
    codes = sorted({doubt.code for o in known_level.observations for doubt in o.doubts})
    counts = str(known_level.level.runs), str(known_level.level.sessions)
    return TableRow(
        (what, str(known_level.hardware), f"{value} {unit}".strip(), ends, *counts, " ".join(codes))
    )


def _is_step(session: Session) -> bool:
    try:
        return session.header.step_of is not None
    except InputError:  # named where what is known of stacks is read
        return False


def sessions_observed(runs: Path, known_stack: KnownStack) -> Sequence[tuple[str, str]]:
    """The sessions that observed it, with their pages: of an exploration or a bisection, its steps."""
    named = {observation.session for observation in known_stack.observations if not observation.origin}
    own = {name for name in named if "/" in name and Session(runs / name).path.is_dir()}
    suites = {name.partition("/")[0] for name in named - own}
    steps = {session.id for suite in suites for session in sessions_of(runs, suite) if _is_step(session)}
    return [(name, session_url(name)) for name in sorted(own | steps)]

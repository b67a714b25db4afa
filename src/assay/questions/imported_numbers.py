"""Imports spreadsheets of figures: sessions of finished and failed runs, with their rows."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from assay import read
from assay.errors import InputError, Problem
from assay.formats.numbers import FACTS, NUMBERS, Conditions, ExportedRun, Sheet, SheetRow, direction, load
from assay.questions.imported_runs import ImportedSession, kept_runs
from assay.records import LATEST_TIME, Better, Run, RunState, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import public_name, set_name, word
from assay.rundir.imported import create, imported_run, imported_trial, refuse_a_suites_name

SHEET = "rows.csv"  # a run's log: the header of its sheet and its own rows


def import_numbers(
    path: Path, runs_dir: Path, name: str, command_line: Sequence[str] = ()
) -> list[ImportedSession]:
    """Store each session of the sheet as one in the runs directory; the same rows are stored once.

    Raises InputError with every problem of the file, if the name is a suite's, or if a session of the
    sheet already exists with other rows.
    """
    set_name(name)
    table = load(path)
    sheet = _Sheet(path, table, runs_dir, name, command_line, time.time())
    _refuse_secrets(sheet)
    _refuse_equal_words(sheet)
    notes = tuple(_notes(table.rows))
    sessions: dict[str, list[SheetRow]] = {}
    for row in table.rows:
        sessions.setdefault(_word(row.session, "session"), []).append(row)
    with rundir.choosing(runs_dir, name):
        _refuse_other_content(sheet, sessions)
        done = [_import_session(sheet, session, rows) for session, rows in sessions.items()]
    return [replace(done[0], notes=notes), *done[1:]]


@dataclass(frozen=True)
class _Sheet:
    """The imported file; `now` is the time of sessions whose name is not a date."""

    path: Path
    table: Sheet
    runs_dir: Path
    name: str
    command_line: Sequence[str]
    now: float

    def content(self, rows: Sequence[SheetRow]) -> str:
        """Digest of a session's rows, unchanged from the file."""
        return digest_of([self.table.header.strip(), [row.text.strip() for row in rows]])

    @cached_property
    def place(self) -> dict[str, int]:
        """Position of each session in the sheet."""
        return {
            name: index for index, name in enumerate(dict.fromkeys(row.session for row in self.table.rows))
        }

    @cached_property
    def better(self) -> dict[str, Better]:
        """Directions that the sheet states and the metric's name doesn't imply."""
        stated = {row.metric: row.better for row in self.table.rows if row.better is not None}
        return {metric: better for metric, better in stated.items() if direction(metric, {}) != better}


def _refuse_secrets(sheet: _Sheet) -> None:
    """Cells that become names, the first of each."""
    first_lines: dict[tuple[str, str], int] = {}
    for row in sheet.table.rows:
        for column in ("system", "workload", "metric", "unit", "session", "run"):
            first_lines.setdefault((column, getattr(row, column)), row.line)
        for label in row.labels:
            first_lines.setdefault(("a column's title", label), 1)
    problems: list[Problem] = []
    for (column, name), line in first_lines.items():
        try:
            public_name(name, f"{sheet.path}:{line}: {column}")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)


def _refuse_equal_words(sheet: _Sheet) -> None:
    """Names that become the same as part of a reference."""
    problems = []
    seen: dict[tuple[str, str], str] = {}
    for row in sheet.table.rows:
        for column, text in (("system", row.system), ("workload", row.workload), ("session", row.session)):
            name = _word(text, column)
            before = seen.setdefault((column, name), text)
            if before != text:
                what = f"{column} {text!r} and {before!r} would both be called {name}; rename one"
                problems.append(Problem(f"{sheet.path}:{row.line}", what))
                seen[column, name] = text  # so that each name is reported once
    if problems:
        raise InputError(problems)


def _refuse_other_content(sheet: _Sheet, sessions: Mapping[str, Sequence[SheetRow]]) -> None:
    """All or nothing: a session stored with other rows would count its runs twice."""
    here = {s.name: s for s in rundir.sessions_of(sheet.runs_dir, sheet.name)}
    refuse_a_suites_name(here.values())
    problems = []
    for name, rows in sessions.items():
        if name in here and here[name].header.content != sheet.content(rows):
            what = (
                f"session {name} of {sheet.name} already exists with other rows; mark the new rows in "
                f"a column `session`, choose another --name, or remove {here[name].path} first"
            )
            problems.append(Problem(f"{sheet.path}:{rows[0].line}", what))
    if problems:
        raise InputError(problems)


def _notes(rows: Sequence[SheetRow]) -> list[str]:
    """What the user should know: metrics without a direction, labels that make every run unique."""
    stated = {row.metric: row.better for row in rows if row.better is not None}
    undirected = sorted({row.metric for row in rows if direction(row.metric, stated) is None})
    lonely = [
        name
        for name in sorted({name for row in rows for name in row.labels} - set(FACTS))
        if _leaves_runs_alone(rows, name)
    ]
    exported = (
        "from `assay export`, which lacks runs without a result and what is known about the machines; "
        "`assay import` of the run directory keeps both"
    )
    return [
        *([exported] if rows[0].exported else []),
        *(
            f"{metric}: unknown which direction is better, so no verdict of faster or slower; write higher "
            "or lower in a column `better`"
            for metric in undirected
        ),
        *(
            f"column {name} differs for every run, so none is a repeat of another; remove it if it "
            "only describes the run"
            for name in lonely
        ),
    ]


def _leaves_runs_alone(rows: Sequence[SheetRow], column: str) -> bool:
    """Whether points have several runs without this label, and none does with it."""

    def most_runs(without: str) -> int:
        runs: dict[str, set[tuple[str, str]]] = {}
        for row in rows:
            labels = {name: value for name, value in row.labels.items() if name not in (without, *FACTS)}
            point = digest_of([row.system, row.workload, str(row.shape), row.metric, labels])
            runs.setdefault(point, set()).add((row.session, row.run))
        return max(map(len, runs.values()))

    return most_runs("") == 1 < most_runs(column)


def _import_session(sheet: _Sheet, name: str, rows: Sequence[SheetRow]) -> ImportedSession:
    """The session, created, or completed if an import was killed halfway."""
    content = sheet.content(rows)
    runs = _runs(sheet, name, rows, content)
    known = [s for s in rundir.sessions_of(sheet.runs_dir, sheet.name) if s.name == name]
    if known and known[0].header.finished_at is not None:
        return ImportedSession(known[0], kept_runs(known[0]), added=False, notes=())
    session = known[0] if known else _create(sheet, name, [run for run, _ in runs], rows, content)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / SHEET
        for run, text in runs:
            if session.attempts_at(run.trial.id):
                continue
            log.write_text(text, encoding="utf-8", newline="")
            problems = read.read({SHEET: log}, run).problems
            state = RunState.FAILED if problems else RunState.FINISHED
            session.add(replace(run, state=state, cause="; ".join(problems)), logs=[log])
    rundir.mark_finished(session, time.time())
    return ImportedSession(session, kept_runs(session), added=True, notes=())


def _create(
    sheet: _Sheet, name: str, runs: Sequence[Run], rows: Sequence[SheetRow], content: str
) -> rundir.Session:
    """The session; primary is a workload's first metric with a direction, otherwise its first."""
    stated = sheet.better
    primary: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: direction(row.metric, stated) is None):
        primary.setdefault(_word(row.workload, "workload"), row.metric)
    return create(
        sheet.runs_dir,
        [run.trial for run in runs],
        content=content,
        primary_metric=primary,
        command_line=sheet.command_line,
        name=name,
    )


def _runs(sheet: _Sheet, session: str, rows: Sequence[SheetRow], content: str) -> list[tuple[Run, str]]:
    """Each run of a session with its own small sheet, in file order."""
    by_run: dict[tuple[str, str], list[SheetRow]] = {}
    for row in rows:
        stem = f"{_word(row.workload, 'workload')}-{row.shape}-{_word(row.system, 'system')}"
        by_run.setdefault((stem, row.run), []).append(row)
    header = sheet.table.header.rstrip("\r\n") + "\n"
    blocks: Counter[str] = Counter()
    ids: dict[str, str] = {}
    sheets = []
    for (stem, name), of_run in by_run.items():
        blocks[stem] += 1
        trial_id = f"{stem}-r{_number(name)}"
        if ids.setdefault(trial_id.casefold(), name) != name:
            what = f"runs {ids[trial_id.casefold()]!r} and {name!r} would both be {trial_id}; rename one"
            raise InputError([Problem(f"{sheet.path}:{of_run[0].line}", what)])
        run = _run(sheet, session, of_run, trial_id, blocks[stem])
        text = header + "".join(row.text.rstrip("\r\n") + "\n" for row in of_run)
        sheets.append((replace(run, plan_digest=content), text))
    return sheets


def _run(sheet: _Sheet, session: str, rows: Sequence[SheetRow], trial_id: str, block: int) -> Run:
    first = rows[0]
    workload, system = _word(first.workload, "workload"), _word(first.system, "system")
    params = {"better": sheet.better}
    exported = first.exported or ExportedRun(block, Conditions())
    trial = imported_trial(sheet.name, workload, NUMBERS.name, system, first.shape, params)
    run = imported_run(replace(trial, id=trial_id, block=exported.block), f"{sheet.path.name}:{first.line}")
    run_id = f"{run.suite}/{session}/{trial_id}"
    begun_at = min(
        (row.started_at for row in rows if row.started_at is not None), default=_date_of(first.session)
    )
    return replace(
        run,
        interleaved=exported.conditions.interleaved,
        outside_block=exported.conditions.outside_block,
        looks=exported.conditions.looks,
        nodes=exported.conditions.nodes,
        id=run_id,
        session=session,
        created_at=sheet.now + 1e-3 * sheet.place[first.session] if begun_at is None else begun_at,
        started_at=begun_at,
    )


def _word(text: str, column: str) -> str:
    """A cell as part of a name; the column's name if none of it is valid."""
    return word(text) or column


def _number(run: str) -> str:
    """A run's name as part of its ID: `03` for 3; a name that had to be changed carries a digest."""
    if run.isascii() and run.isdigit():
        return f"{int(run):02}" if len(run) < 10 else run
    plain = word(run)
    return plain if plain == run else f"{plain}_{digest_of(run)[:6]}"


def _date_of(session: str) -> float | None:
    """When a session took place, if its name is a date; seconds since the epoch."""
    try:
        when = datetime.fromisoformat(session)
    except ValueError:
        return None
    seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return seconds if 0 <= seconds <= LATEST_TIME else None

"""Import logs, spreadsheets, and runs made elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.errors import InputError, Problem
from assay.formats.tools import format_names
from assay.questions.evidence import runs_directory, updated
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function_of_many,
    option,
    question,
)
from assay.records import Shape
from assay.units import counted
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from assay.formats.logged import Stated
    from assay.questions.imported_runs import ImportedSession
    from assay.view.blocks import Block

SHEETS = (".csv", ".tsv")


def existing(path: Reference) -> Reference:
    """The path. Raises ValueError if nothing is there."""
    if not Path(path).exists():
        raise ValueError(f"Path {str(path)!r} does not exist.")
    return path


def format_of(name: str) -> str:
    """The name of a format, or auto. Raises ValueError for any other."""
    if name not in ("auto", *format_names()):
        raise ValueError(f"found {name!r}; expected auto, {', '.join(format_names())}")
    return name


def shape_of(shape: str | Shape) -> Shape:
    """The shape, also as text. Raises ValueError if it is none."""
    return Shape.parse(shape) if isinstance(shape, str) else shape


@question
class Import(Question):
    """Import logs, spreadsheets, and runs made elsewhere.

    PATHs are MLPerf training results (any tree whose leaves contain result_*.txt), MLPerf inference runs
    (folders with LoadGen's mlperf_log_*.txt, logs of the reference app) or logs of other programs, one file
    per run; or run directories of another Assay (a session, a suite's or a whole runs directory), which keep
    their names and are merged with those here by suite; or spreadsheets of any measurements as CSV. Without a
    --name, logs and spreadsheets are named after the first file or folder. Files are copied; importing the
    same again adds nothing.

    Assay recognizes a program by its log's content, and reports it together with the number of lines that it
    did not understand. MLPerf Storage is also found in a directory, by the summary.json of each run.

    A spreadsheet has one measurement per row. Columns: system, metric, run, value; and, as needed, workload,
    shape (such as 2x8), unit, session (runs that share a day or an allocation), better (higher or lower) and
    started_at (such as 2026-11-22T09:30:00: without it, drift and dependence of runs can't be tested).
    device, device_name, precision and global_batch_size describe how a run was made; doubts rest on them.
    Every other column is a label that distinguishes measurements. An empty value is a run without a value. A
    CSV from `assay export` is recognized by its columns and compares as the original runs did.

    \b
    Examples:
      assay import v3.0/Supermicro --name ubuntu
      assay import v3.1/Supermicro-RedHat --name openshift
      assay compare ubuntu openshift
      assay import /mnt/other-machine/runs/resnet50-scaling
      assay import numbers.csv && assay compare numbers
    """

    paths: tuple[Annotated[Reference, Reads(existing, "PATH")], ...] = argument(
        metavar="PATH…", parameters=("path", "paths")
    )
    name: str | None = option(
        "Name of the imported set, for `assay compare` and others. [default: the first file or folder]",
        default=None,
    )
    system: str | None = option(
        "For logs: what they ran on. [default: the folder or its system JSON]", default=None
    )
    shape: Annotated[str | Shape, Reads(shape_of, "SHAPE")] | None = option(
        "For logs: nodes x accelerators. [default: from the log or the system JSON]", default=None
    )
    round: str | None = option(
        "For logs: MLPerf round, such as v3.1. [default: from the log or its folders]", default=None
    )
    benchmark: str | None = option("For logs that don't name it. [default: the folder]", default=None)
    format: Annotated[str, Reads(format_of, "NAME")] = option(
        f"For logs: the tool, {', '.join(format_names())}. [default: auto, by content]", default="auto"
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Imported:
        """Everything copied and indexed. Raises InputError, with every problem, if a path can't be used."""
        return self._imported(())

    @contextmanager
    def answering(self) -> Iterator[Imported]:
        """The same, with the command as it was typed."""
        yield self._imported(("assay", *sys.argv[1:]))

    def _imported(self, command_line: Sequence[str]) -> Imported:
        from assay.formats.logged import Stated
        from assay.rundir.merging import is_run_directory

        try:
            shape = None if self.shape is None else shape_of(self.shape)
        except ValueError as error:
            raise InputError(f"shape: {error}") from error
        try:
            format_of(self.format)
        except ValueError as error:
            raise InputError(f"format: {error}") from error
        stated = Stated(self.system, shape, self.round, self.benchmark)
        sources, directory = [Path(source) for source in self.paths], runs_directory(self.runs)
        own = [source for source in sources if source.is_dir() and is_run_directory(source)]
        sheets = [source for source in sources if source.is_file() and source.suffix.lower() in SHEETS]
        logs = [source for source in sources if source not in own and source not in sheets]
        if own and (self.name or stated != Stated()):
            raise InputError(f"{own[0]}: an Assay run directory keeps its own names; omit the options")
        if sheets and stated != Stated():
            raise InputError(f"{sheets[0]}: a spreadsheet states these in its columns; omit the options")
        sessions = [session for place in own for session in _merged(place, directory)]
        for sheet in sheets:
            from assay.questions.imported_numbers import import_numbers

            sessions += import_numbers(sheet, directory, self.name or _name_of(sheet), command_line)
        if logs:
            name = self.name or _name_of(logs[0])
            sessions += kept_logs(logs, directory, name, stated, self.format, command_line)
        return Imported(tuple(sessions), updated(directory))


import_ = function_of_many(Import, Import.answer)


@dataclass(frozen=True)
class Imported(Answer):
    """The result of `import_`: the sessions, and run directories that could not be added to the index."""

    sessions: tuple[ImportedSession, ...]
    problems: tuple[Problem, ...]

    @property
    def notes(self) -> Sequence[str]:
        """What could not be added to the index."""
        return [f"assay: {problem}" for problem in self.problems]

    def document(self) -> dict[str, Any]:
        """Each session, and how it was understood."""
        return {
            "schema": "assay.import/1",
            "sessions": [
                {
                    "session": imported.session.id,
                    "path": str(imported.session.path),
                    "added": imported.added,
                    "runs": len(imported.runs),
                    "failed": [
                        {"run": run.trial.id, "source": run.source, "cause": run.cause}
                        for run in imported.runs
                        if run.state.value == "failed"
                    ],
                    "notes": list(imported.notes),
                }
                for imported in self.sessions
            ],
        }

    def view(self) -> Iterator[Block]:
        """Each session: how many runs, which of them have no result, and notes, those that are alike once."""
        for imported in self.document()["sessions"]:
            present = "" if imported["added"] else ", already present: nothing added"
            yield Paragraph(
                f"{imported['session']}: {counted(imported['runs'], 'run')}{present}", wraps=False
            )
            for run in imported["failed"]:
                yield Paragraph(f"  {run['run']} has no result: {run['cause']}", wraps=False)
            for note in grouped_notes(imported["notes"]):
                yield Paragraph(f"  note: {note}", wraps=False)


def grouped_notes(notes: Sequence[str]) -> Iterator[str]:
    """The first of the notes that differ in their file and figures only, and how many are like it."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        head, _, rest = note.partition(": ")
        text = rest if rest and " " not in head else note
        alike.setdefault(re.sub(r"[\d.,]+", "#", text), []).append(note)
    for first, *others in alike.values():
        yield first + (f" (and {counted(len(others), 'note')} like it; --json lists all)" if others else "")


def kept_logs(
    paths: Sequence[Path],
    runs_dir: Path,
    name: str,
    stated: Stated,
    requested: str = "auto",
    command_line: Sequence[str] = (),
    named: Callable[[str], str] = str,
) -> list[ImportedSession]:
    """Each format's logs as one session: training results, inference runs, each program's logs.

    named  puts the user's names of files into a text
    """
    from assay.formats.recognize import logged_runs
    from assay.questions.imported_runs import keep
    from assay.rundir.files import set_name

    set_name(name)
    logs, notes = logs_by_format(paths, requested)
    sets = [logged for format_, own in logs.items() for logged in logged_runs(format_, own, stated)]
    first, *rest = (keep(logged.named(named), runs_dir, name, command_line) for logged in sets)
    return [replace(first, notes=(*first.notes, *map(named, notes))), *rest]


def logs_by_format(paths: Sequence[Path], requested: str) -> tuple[dict[str, list[Path]], list[str]]:
    """The logs at these paths by their format, MLPerf's first, and notes on what was left out of folders.

    Raises InputError with every path that has no log.
    """
    from assay.formats.recognize import recognize
    from assay.formats.tools import CNN, MLPERF

    logs: dict[str, list[Path]] = {}
    notes: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            for format_, log in recognize(path, requested, notes):
                logs.setdefault(format_, []).append(log)
        except InputError as error:
            problems += error.problems
    if problems and logs:
        others = counted(sum(map(len, logs.values())), "path")
        left = f"nothing was imported; leave out those above to import the rest, {others}"
        problems.append(Problem("", left))
    if problems:
        raise InputError(problems)
    order = sorted(logs, key=lambda name: (MLPERF, CNN, name).index(name))
    return {format_: logs[format_] for format_ in order}, notes


def _name_of(path: Path) -> str:
    """The name of a file or folder as that of a set."""
    from assay.rundir.files import public_word

    path = path.resolve()
    name = public_word(path.name if path.is_dir() else path.stem, "the name of the file")
    if not name:
        raise InputError(f"{path}: a set can't have this name; choose one with --name")
    return name


def _merged(path: Path, runs_dir: Path) -> Iterator[ImportedSession]:
    from assay.questions.imported_runs import ImportedSession, kept_runs
    from assay.rundir.merging import merge

    for merged in merge(path, runs_dir):
        ignored = len(merged.ignored)
        notes = (f"{counted(ignored, 'file')} left out: not part of a run directory",) if ignored else ()
        yield ImportedSession(merged.session, kept_runs(merged.session), merged.added, notes)

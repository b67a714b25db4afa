"""Import logs, spreadsheets, and runs made elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError, Problem
from assay.questions.evidence import Names, each, runs_directory, updated
from assay.units import counted

if TYPE_CHECKING:
    from assay.intake.sessions import ImportResult
    from assay.intake.training_logs import TrainingLogsRequest
    from assay.records import Run, Shape
    from assay.rundir.session import Session

SHEETS = (".csv", ".tsv")


@dataclass(frozen=True)
class ImportedSession:
    """The result of importing some of the paths.

    added  False if the same was already present
    notes  how they were understood, if that is worth knowing
    """

    session: Session
    runs: tuple[Run, ...]
    added: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Import:
    """The result of `import_`: the sessions, and run directories that could not be added to the index."""

    sessions: tuple[ImportedSession, ...]
    problems: tuple[Problem, ...]


def formats() -> tuple[str, ...]:
    """The formats of logs, by name, those of plug-ins last."""
    from assay.formats.tools import TOOLS

    return ("mlperf", "tf-cnn-benchmarks", *TOOLS)


def import_(
    path: Names,
    *paths: str | PathLike[str],
    name: str | None = None,
    system: str | None = None,
    shape: str | Shape | None = None,
    round: str | None = None,  # noqa: A002 - the command's own name for it
    benchmark: str | None = None,
    format: str = "auto",  # noqa: A002 - as above
    runs: str | PathLike[str] | None = None,
    command_line: Sequence[str] = (),
) -> Import:
    """Logs, spreadsheets and run directories, copied and indexed, like `assay import PATH…`.

    name          for logs: the name of the set; for a spreadsheet; None: named after its file
    system        for logs: what they ran on; None: from their folder or system JSON; likewise the others
    shape         for logs: nodes x accelerators, such as `2x8`
    round         for logs: MLPerf round, such as v3.1
    benchmark     for logs that don't name it
    format        for logs: the tool; auto: by content
    runs          directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    command_line  as typed, recorded in the sessions

    Raises InputError if a path can't be used or an option does not apply to it.
    """
    from assay.intake.run_directories import is_run_directory
    from assay.intake.training_logs import TrainingLogsRequest
    from assay.records import Shape

    if format not in ("auto", *formats()):
        raise InputError(f"format: found {format!r}; expected auto, {', '.join(formats())}")
    sources, directory = [Path(source) for source in each(path, *paths)], runs_directory(runs)
    own = [source for source in sources if source.is_dir() and is_run_directory(source)]
    sheets = [source for source in sources if source.is_file() and source.suffix.lower() in SHEETS]
    logs = [source for source in sources if source not in own and source not in sheets]
    if logs and name is None:
        raise InputError(f"{logs[0]}: imported logs need a name; add --name")
    if own and (name or system or shape or round or benchmark):
        raise InputError(f"{own[0]}: an Assay run directory keeps its own names; omit the options")
    if sheets and (system or shape or round or benchmark):
        raise InputError(f"{sheets[0]}: a spreadsheet states these in its columns; omit the options")
    try:
        of_shape = Shape.parse(shape) if isinstance(shape, str) else shape
    except ValueError as error:
        raise InputError(f"shape: {error}") from error
    sessions = [session for place in own for session in _merged(place, directory)]
    sessions += [session for sheet in sheets for session in _numbers(sheet, directory, name, command_line)]
    if logs and name is not None:
        request = TrainingLogsRequest(directory, name, system, of_shape, round, benchmark, command_line)
        sessions += _logs(logs, request, format)
    return Import(tuple(sessions), updated(directory))


def _merged(path: Path, runs_dir: Path) -> Iterator[ImportedSession]:
    from assay.intake.run_directories import merge

    for merged in merge(path, runs_dir):
        runs = tuple(attempt.run() for attempt in merged.session.last_attempts().values())
        ignored = len(merged.ignored)
        notes = (f"{counted(ignored, 'file')} left out: not part of a run directory",) if ignored else ()
        yield ImportedSession(merged.session, runs, merged.added, notes)


def _logs(paths: Sequence[Path], request: TrainingLogsRequest, requested: str) -> list[ImportedSession]:
    """Each format's logs become one session: training results, inference runs and each program's logs."""
    from assay.formats.mlperf_inference import told_apart
    from assay.formats.result_sets import find_sets
    from assay.intake.loadgen import import_inference
    from assay.intake.tool_logs import import_cnn_logs, import_tool_logs
    from assay.intake.training_logs import import_sets

    by_format: dict[str, list[Path]] = {}
    notes: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            for format_, log in _recognized(path, requested, notes):
                by_format.setdefault(format_, []).append(log)
        except InputError as error:
            problems += error.problems
    if problems and by_format:
        others = counted(sum(map(len, by_format.values())), "path")
        problems.append(
            Problem("", f"nothing was imported; leave out those above to import the rest, {others}")
        )
    if problems:
        raise InputError(problems)
    training, inference = told_apart(by_format.pop("mlperf", []))
    imported = [import_sets(find_sets(training), request)] if training else []
    imported += [import_inference(inference, request)] if inference else []
    cnn_logs = by_format.pop("tf-cnn-benchmarks", [])
    imported += [import_cnn_logs(cnn_logs, request)] if cnn_logs else []
    imported += [import_tool_logs(logs, tool, request) for tool, logs in by_format.items()]
    first, *rest = map(_session, imported)
    return [replace(first, notes=(*first.notes, *notes)), *rest]


def _recognized(path: Path, requested: str, notes: list[str]) -> Iterator[tuple[str, Path]]:
    """Each log of a path with its format; several formats may be in one folder, or in one file.

    notes  gets what was left out of a folder

    Raises InputError if there is none.
    """
    if not path.is_dir():
        yield from ((name, path) for name in _formats_of(path, requested))
        return
    from assay.formats.loadgen import find_runs
    from assay.formats.mlperf_storage import NAME, find_summaries
    from assay.formats.result_sets import holds_results

    summaries = find_summaries(path)
    yield from ((NAME, summary) for summary in summaries)
    is_mlperfs = holds_results(path) or bool(find_runs([path]))
    logs: list[tuple[str, Path]] = []
    if requested != "mlperf" and not summaries:
        logs += _logs_below(path, requested, notes, beside_results=is_mlperfs)
    if requested not in ("auto", "mlperf"):
        logs = [(name, log) for name, log in logs if name == requested]
        if not logs and not summaries:
            raise InputError(f"{path}: none of its files is a log of {requested}")
    if is_mlperfs or not (summaries or logs):
        yield "mlperf", path  # where there is no log at all, its reader says what is missing
    yield from logs


def _logs_below(
    folder: Path, requested: str, notes: list[str], *, beside_results: bool
) -> Iterator[tuple[str, Path]]:
    """The logs in a folder and below it, without hidden ones and those of Assay's own runs.

    beside_results  the folder has results of MLPerf, whose tree is read by its own rules: then only logs
                    of other programs, directly in the folder
    """
    unknown: list[Path] = []
    found_any = False
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith((".", "attempt-")))
        if beside_results:
            inner.clear()
        for file in (Path(place, name) for name in sorted(names) if not name.startswith(".")):
            if not file.is_file() or (beside_results and _is_of_results(file)):
                continue
            try:
                formats = _recognized_formats(file)
            except InputError as error:
                notes.append(f"{error}; left out")
                continue
            unknown += [] if formats else [file]
            found_any = found_any or bool(formats)
            yield from ((name, file) for name in formats)
    if unknown and found_any and not beside_results and requested == "auto":
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        shown = ", ".join(map(str, unknown[:3]))
        notes.append(f"left out, in no known format: {shown}{more}")


def _is_of_results(file: Path) -> bool:
    """Whether a file belongs to results of MLPerf, which are read from their folder."""
    from assay.formats.mlperf_inference import is_mlperf_file

    try:
        return file.name.startswith("mlperf_log_") or is_mlperf_file(file)
    except InputError:
        return True


def _formats_of(path: Path, requested: str) -> Sequence[str]:
    """The formats in which a file is read: as requested, or by its name or content.

    Raises InputError if it is in no known format.
    """
    from assay.formats.tools import unrecognised

    if requested != "auto":
        return [requested]
    formats = _recognized_formats(path)
    if not formats:
        raise InputError([Problem(str(path), unrecognised(path))])
    return formats


def _recognized_formats(path: Path) -> list[str]:
    """The formats that a file is in. One whose figures are all in lines of another one's is left out.

    Raises InputError if it can't be read.
    """
    from assay.formats.mlperf_inference import is_mlperf_file
    from assay.formats.tf_cnn_benchmarks import cnn_run, is_cnn_log
    from assay.formats.tools import read_log, tools_of

    names = [tool.name for tool in tools_of(path)]
    names += ["tf-cnn-benchmarks"] if is_cnn_log(path) else []
    if len(names) < 2:
        return names or (["mlperf"] if is_mlperf_file(path) else [])
    lines: dict[str, set[int]] = {}
    for name in names:
        if name == "tf-cnn-benchmarks":
            run = cnn_run(path)
            lines[name] = {step.line for step in run.steps} | {line for _, line in run.totals}
        else:
            lines[name] = {figure.line for figure in read_log(name, path).figures}
    formats: list[str] = []
    for name in sorted(lines, key=lambda name: -len(lines[name])):
        if not any(lines[name] <= lines[other] for other in formats):
            formats.append(name)
    return sorted(formats, key=names.index)


def _numbers(
    path: Path, runs_dir: Path, name: str | None, command_line: Sequence[str]
) -> list[ImportedSession]:
    from assay.intake.numbers import NumbersRequest, import_numbers
    from assay.rundir.files import public_word

    kept_as = name or public_word(path.stem, "the name of the file")
    if not kept_as:
        raise InputError(f"{path}: a set can't have this name; choose one with --name")
    return [*map(_session, import_numbers(path, NumbersRequest(runs_dir, kept_as, command_line)))]


def _session(imported: ImportResult) -> ImportedSession:
    return ImportedSession(imported.session, tuple(imported.runs), imported.added, tuple(imported.notes))

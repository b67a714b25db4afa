"""Import logs, spreadsheets, and runs made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    from assay.logs.tools import TOOLS

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


def _logs(paths: Sequence[Path], request: TrainingLogsRequest, format_: str) -> list[ImportedSession]:
    """Training results, inference runs and each program's logs become one session each."""
    from assay.intake.loadgen import import_inference
    from assay.intake.tf_cnn import import_cnn_logs
    from assay.intake.tool_logs import import_tool_logs
    from assay.intake.training_logs import import_sets
    from assay.logs.inference_paths import told_apart
    from assay.logs.loadgen import find_runs
    from assay.logs.mlperf_storage import NAME, find_summaries
    from assay.logs.result_sets import find_sets, holds_results

    by_tool: dict[str, list[Path]] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            if summaries := find_summaries(path):
                by_tool.setdefault(NAME, []).extend(summaries)
            if not summaries or holds_results(path) or find_runs([path]):
                by_tool.setdefault(_format(path, format_), []).append(path)
        except InputError as error:
            problems += error.problems
    if problems and by_tool:
        others = counted(sum(map(len, by_tool.values())), "path")
        problems.append(
            Problem("", f"nothing was imported; leave out those above to import the rest, {others}")
        )
    if problems:
        raise InputError(problems)
    training, inference = told_apart(by_tool.pop("mlperf", []))
    imported = [import_sets(find_sets(training), request)] if training else []
    imported += [import_inference(inference, request)] if inference else []
    imported += (
        [import_cnn_logs(by_tool.pop("tf-cnn-benchmarks"), request)] if "tf-cnn-benchmarks" in by_tool else []
    )
    imported += [import_tool_logs(files, tool, request) for tool, files in by_tool.items()]
    return [*map(_session, imported)]


def _format(path: Path, requested: str) -> str:
    """The tool whose log a path is: as requested, or by its name or content.

    Raises InputError if it has lines of several programs or of none, or if a folder is declared to be one
    program's log.
    """
    from assay.logs.closest_format import unrecognised
    from assay.logs.mlperf_files import is_mlperf_file
    from assay.logs.tf_cnn_benchmarks import is_cnn_log
    from assay.logs.tools import tools_of

    if path.is_dir():
        if requested not in ("auto", "mlperf"):
            raise InputError(f"{path}: --format {requested} reads files; name the files of the folder")
        return "mlperf"
    if requested != "auto":
        return requested
    names = [tool.name for tool in tools_of(path)]
    names += ["tf-cnn-benchmarks"] if is_cnn_log(path) else []
    if len(names) > 1:
        raise InputError(f"{path}: it has lines of {' and '.join(names)}; choose one with --format")
    if not names and not is_mlperf_file(path):
        raise InputError([Problem(str(path), unrecognised(path))])
    return names[0] if names else "mlperf"


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

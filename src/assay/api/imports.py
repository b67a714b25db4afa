"""Logs and runs that others made, taken in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.evidence import Names, each, runs_directory
from assay.errors import InputError, Problem
from assay.units import counted

if TYPE_CHECKING:
    from assay.intake.sessions import ImportResult
    from assay.intake.training_logs import TrainingLogsRequest
    from assay.records import Run, Shape
    from assay.rundir.session import Session

SHEETS = (".csv", ".tsv")


@dataclass(frozen=True)
class ImportedSession:
    """What became of some of the paths.

    added  False where the same was here before
    notes  how they were understood, where that is worth knowing
    """

    session: Session
    runs: tuple[Run, ...]
    added: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Import:
    """What came of `import_`: the sessions, and run directories that could not be taken into the index."""

    sessions: tuple[ImportedSession, ...]
    problems: tuple[Problem, ...]


def import_(
    path: Names,
    *paths: str | PathLike[str],
    name: str | None = None,
    system: str | None = None,
    shape: str | Shape | None = None,
    round: str | None = None,  # noqa: A002 - the command's own word for it
    benchmark: str | None = None,
    format: str = "auto",  # noqa: A002 - as above
    runs: str | PathLike[str] | None = None,
    command_line: Sequence[str] = (),
) -> Import:
    """Logs, spreadsheets and run directories of others, copied and indexed, as `assay import PATH…`.

    name          of logs: what they are kept under; of a spreadsheet; None: as its file
    system        of logs: what they ran on; None: as their folder or system JSON says; so the others
    shape         of logs: nodes x accelerators, like `2x8`
    round         of logs: MLPerf round, like v3.1
    benchmark     of logs that don't name it
    format        of logs: whose they are; auto: by what is in them
    runs          directory that holds the runs; None is $ASSAY_RUNS, else `runs` here
    command_line  what was typed, as the sessions keep it

    Raises InputError where a path can't be used or an option does not fit it.
    """
    from assay.intake.run_directories import is_run_directory
    from assay.intake.training_logs import TrainingLogsRequest
    from assay.records import Shape
    from assay.run.index import update_index

    given, directory = [Path(one) for one in each(path, *paths)], runs_directory(runs)
    own = [one for one in given if one.is_dir() and is_run_directory(one)]
    sheets = [one for one in given if one.is_file() and one.suffix.lower() in SHEETS]
    logs = [one for one in given if one not in own and one not in sheets]
    if logs and name is None:
        raise InputError(f"{logs[0]}: logs need a name to be kept under; say it with --name")
    if own and (name or system or shape or round or benchmark):
        raise InputError(f"{own[0]}: a run directory of Assay keeps its own names; leave the options out")
    if sheets and (system or shape or round or benchmark):
        raise InputError(f"{sheets[0]}: a spreadsheet says these in its columns; leave the options out")
    try:
        of_shape = Shape.parse(shape) if isinstance(shape, str) else shape
    except ValueError as error:
        raise InputError(f"shape: {error}") from error
    sessions = [one for place in own for one in _merged(place, directory)]
    sessions += [one for sheet in sheets for one in _numbers(sheet, directory, name, command_line)]
    if logs and name is not None:
        asked = TrainingLogsRequest(directory, name, system, of_shape, round, benchmark, command_line)
        sessions += _logs(logs, asked, format)
    return Import(tuple(sessions), tuple(update_index(directory)))


def _merged(path: Path, runs_dir: Path) -> Iterator[ImportedSession]:
    from assay.intake.run_directories import merge

    for merged in merge(path, runs_dir):
        runs = tuple(attempt.run() for attempt in merged.session.last_attempts().values())
        ignored = len(merged.ignored)
        notes = (f"{counted(ignored, 'file')} left out: not of a run directory",) if ignored else ()
        yield ImportedSession(merged.session, runs, merged.added, notes)


def _logs(paths: Sequence[Path], asked: TrainingLogsRequest, format_: str) -> list[ImportedSession]:
    """Training results, runs of inference and each program's logs become a session each."""
    from assay.intake.loadgen import import_inference
    from assay.intake.tf_cnn import import_cnn_logs
    from assay.intake.tool_logs import import_tool_logs
    from assay.intake.training_logs import import_sets
    from assay.logs.inference_paths import told_apart
    from assay.logs.result_sets import find_sets

    of: dict[str, list[Path]] = {}
    for path in paths:
        of.setdefault(_format(path, format_), []).append(path)
    training, inference = told_apart(of.pop("mlperf", []))
    imported = [import_sets(find_sets(training), asked)] if training else []
    imported += [import_inference(inference, asked)] if inference else []
    imported += [import_cnn_logs(of.pop("tf-cnn-benchmarks"), asked)] if "tf-cnn-benchmarks" in of else []
    imported += [import_tool_logs(files, tool, asked) for tool, files in of.items()]
    return [*map(_session, imported)]


def _format(path: Path, asked: str) -> str:
    """Whose log a path is: as asked, or as its name or lines say.

    Raises InputError where it has lines of several programs or of none, or where a folder is said to be one
    program's log.
    """
    from assay.logs.closest_format import unrecognised
    from assay.logs.mlperf_files import is_mlperf_file
    from assay.logs.tf_cnn_benchmarks import is_cnn_log
    from assay.logs.tools import tools_of

    if path.is_dir():
        if asked not in ("auto", "mlperf"):
            raise InputError(f"{path}: --format {asked} reads files; name the files of the folder")
        return "mlperf"
    if asked != "auto":
        return asked
    found = [tool.name for tool in tools_of(path)]
    found += ["tf-cnn-benchmarks"] if is_cnn_log(path) else []
    if len(found) > 1:
        raise InputError(f"{path}: it has lines of {' and '.join(found)}; say with --format which to read")
    if not found and not is_mlperf_file(path):
        raise InputError([Problem(str(path), unrecognised(path))])
    return found[0] if found else "mlperf"


def _numbers(
    path: Path, runs_dir: Path, name: str | None, command_line: Sequence[str]
) -> list[ImportedSession]:
    from assay.intake.numbers import NumbersRequest, import_numbers
    from assay.rundir.files import word

    kept_as = name or word(path.stem)
    if not kept_as:
        raise InputError(f"{path}: its name can't name what is kept; say one with --name")
    return [*map(_session, import_numbers(path, NumbersRequest(runs_dir, kept_as, command_line)))]


def _session(imported: ImportResult) -> ImportedSession:
    return ImportedSession(imported.session, tuple(imported.runs), imported.added, tuple(imported.notes))

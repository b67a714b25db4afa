"""`assay import`: logs and runs that others made."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import InputError, Problem
from assay.units import counted

if TYPE_CHECKING:
    from assay.intake.run_directories import Merged
    from assay.records import Run, Shape
    from assay.rundir.session import Session


def _shape(_context: click.Context, _option: click.Parameter, text: str | None) -> Shape | None:
    from assay.records import Shape

    if text is None:
        return None
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


SHEETS = (".csv", ".tsv")
# As `logs.tools` has them, which is too slow to import for a help text; tested to be the same.
TOOLS = (
    *("nccl-tests", "perftest", "iperf3", "param-comms", "nvbandwidth", "gpu-burn"),
    *("horovod", "timm", "deeplearningexamples"),
)
FORMATS = ("auto", "mlperf", "tf-cnn-benchmarks", *TOOLS)


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(path_type=Path, exists=True)
)
@click.option("--name", help="For logs: the name to keep them under, for `assay compare` and the others.")
@click.option("--system", help="For logs: what they ran on. [default: the folder or its system JSON]")
@click.option(
    "--shape",
    callback=_shape,
    help="For logs: nodes x accelerators. [default: as the log or the system JSON says]",
)
@click.option(
    "--round", "round_", help="For logs: MLPerf round, like v3.1. [default: the log or its folders]"
)
@click.option("--benchmark", help="For logs that don't name it. [default: the folder]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    metavar="NAME",
    default="auto",
    help=f"For logs: whose they are, {', '.join(FORMATS[1:])}. [default: auto, by what stands in them]",
)
@RUNS
@JSON
def command(
    paths: tuple[Path, ...],
    name: str | None,
    system: str | None,
    shape: Shape | None,
    round_: str | None,
    benchmark: str | None,
    format_: str,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Take in logs and runs that others made.

    PATHs are MLPerf training results (any tree whose leaves hold result_*.txt), runs of MLPerf inference
    (folders with LoadGen's mlperf_log_*.txt, logs of the reference app) or logs of tf_cnn_benchmarks, and
    need a --name; or run directories of another Assay (a session, a suite's or a whole runs directory),
    which keep theirs and merge with what is here by their suite; or spreadsheets of any figures as CSV,
    named as their file without a --name. Files are copied; importing the same again adds nothing.

    Logs and reports of nccl-tests, perftest, iperf3, PARAM, nvbandwidth, gpu-burn, Horovod's synthetic
    benchmark, timm and DeepLearningExamples are taken in as well, one file a run. Whose a file is shows in
    its lines; it is said, and how many lines were not understood.

    A spreadsheet has one figure a row. Columns: system, metric, run, value; and as far as needed workload,
    shape (like 2x8), unit, session (runs that share a day or an allocation), better (higher or lower) and
    started_at (like 2026-11-22T09:30:00: without it, drift and dependence of runs can't be tested).
    device, device_name, precision and global_batch_size say how a run was made; doubts rest on them.
    Every other column is a label that tells figures apart. An empty value is a run that gave none.

    \b
    Examples:
      assay import v3.0/Supermicro --name ubuntu
      assay import v3.1/Supermicro-RedHat --name openshift
      assay compare ubuntu openshift
      assay import /mnt/other-machine/runs/resnet50-scaling
      assay import numbers.csv && assay compare numbers
    """
    from assay.intake.run_directories import is_run_directory, merge
    from assay.run.index import update_index

    runs = [path for path in paths if path.is_dir() and is_run_directory(path)]
    sheets = [path for path in paths if path.is_file() and path.suffix.lower() in SHEETS]
    logs = [path for path in paths if path not in runs and path not in sheets]
    if logs and name is None:
        raise InputError(f"{logs[0]}: logs need a name to be kept under; say it with --name")
    if runs and (name or system or shape or round_ or benchmark):
        raise InputError(f"{runs[0]}: a run directory of Assay keeps its own names; leave the options out")
    if sheets and (system or shape or round_ or benchmark):
        raise InputError(f"{sheets[0]}: a spreadsheet says these in its columns; leave the options out")
    done = [_merged(merged) for path in runs for merged in merge(path, runs_dir)]
    done += [one for path in sheets for one in _numbers(path, runs_dir, name)]
    if logs and name is not None:
        done += _imported(logs, runs_dir, (name, system, shape, round_, benchmark), format_)
    problems = update_index(runs_dir)
    if as_json:
        echo_json({"schema": "assay.import/1", "sessions": done})
    else:
        for one in done:
            _show(one)
    for problem in problems:
        click.echo(f"assay: {problem}", err=True)


def _merged(merged: Merged) -> dict[str, Any]:
    runs = [attempt.run() for attempt in merged.session.last_attempts().values()]
    notes = (
        [f"{counted(len(merged.ignored), 'file')} left out: not of a run directory"] if merged.ignored else []
    )
    return _document(merged.session, runs, added=merged.added, notes=notes)


def _imported(
    paths: Sequence[Path],
    runs_dir: Path,
    said: tuple[str, str | None, Shape | None, str | None, str | None],
    format_: str,
) -> list[dict[str, Any]]:
    """Training results, runs of inference and each program's logs become a session each."""
    from assay.intake.loadgen import import_inference
    from assay.intake.tf_cnn import import_cnn_logs
    from assay.intake.tool_logs import import_tool_logs
    from assay.intake.training_logs import Asked, import_sets
    from assay.logs.inference_paths import told_apart
    from assay.logs.result_sets import find_sets

    formats = {path: _format(path, format_) for path in paths}
    of: dict[str, list[Path]] = {}
    for path, name in formats.items():
        of.setdefault(name, []).append(path)
    training, inference = told_apart(of.pop("mlperf", []))
    asked = Asked(runs_dir, *said, ("assay", *sys.argv[1:]))
    imported = [import_sets(find_sets(training), asked)] if training else []
    imported += [import_inference(inference, asked)] if inference else []
    imported += [import_cnn_logs(of.pop("tf-cnn-benchmarks"), asked)] if "tf-cnn-benchmarks" in of else []
    imported += [import_tool_logs(files, tool, asked) for tool, files in of.items()]
    return [_document(one.session, one.runs, added=one.added, notes=one.notes) for one in imported]


def _format(path: Path, asked: str) -> str:
    """Whose log a path is: as asked, or as its name or lines say.

    Raises InputError where it has lines of several programs or of none, or where a folder is said to be one
    program's log.
    """
    from assay.logs.closest import unrecognised
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


def _numbers(path: Path, runs_dir: Path, name: str | None) -> list[dict[str, Any]]:
    from assay.intake.numbers import Asked, import_numbers
    from assay.rundir.files import word

    kept_as = name or word(path.stem)
    if not kept_as:
        raise InputError(f"{path}: its name can't name what is kept; say one with --name")
    imported = import_numbers(path, Asked(runs_dir, kept_as, ("assay", *sys.argv[1:])))
    return [_document(one.session, one.runs, added=one.added, notes=one.notes) for one in imported]


def _document(session: Session, runs: Sequence[Run], *, added: bool, notes: Sequence[str]) -> dict[str, Any]:
    failed = [run for run in runs if run.state.value == "failed"]
    return {
        "session": session.id,
        "path": str(session.path),
        "added": added,
        "runs": len(runs),
        "failed": [{"run": run.trial.id, "source": run.source, "cause": run.cause} for run in failed],
        "notes": list(notes),
    }


def _show(done: dict[str, Any]) -> None:
    what = f"{done['runs']} runs" if done["runs"] != 1 else "1 run"
    click.echo(f"{done['session']}: {what}{'' if done['added'] else ', here already: nothing added'}")
    for failure in done["failed"]:
        click.echo(f"  {failure['run']} is no result: {failure['cause']}")
    alike: dict[str, list[str]] = {}
    for note in done["notes"]:
        alike.setdefault(_without_file_and_figures(note), []).append(note)
    for first, *others in alike.values():
        more = f" (and {counted(len(others), 'note')} like it: --json has all)" if others else ""
        click.echo(f"  note: {first}{more}")


def _without_file_and_figures(note: str) -> str:
    """What a note says, without the path that it may begin with."""
    head, _, rest = note.partition(": ")
    return re.sub(r"[\d.,]+", "#", rest if rest and " " not in head else note)

"""`assay import`: logs, spreadsheets, and runs made elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.questions.import_ import formats
from assay.units import counted

if TYPE_CHECKING:
    from assay.questions.import_ import ImportedSession
    from assay.records import Shape


def _shape(_context: click.Context, _option: click.Parameter, text: str | None) -> Shape | None:
    from assay.records import Shape

    if text is None:
        return None
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(path_type=Path, exists=True)
)
@click.option("--name", help="For logs: the name of the imported set, for `assay compare` and others.")
@click.option("--system", help="For logs: what they ran on. [default: the folder or its system JSON]")
@click.option(
    "--shape",
    callback=_shape,
    help="For logs: nodes x accelerators. [default: from the log or the system JSON]",
)
@click.option(
    "--round", "round_", help="For logs: MLPerf round, such as v3.1. [default: from the log or its folders]"
)
@click.option("--benchmark", help="For logs that don't name it. [default: the folder]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(("auto", *formats())),
    metavar="NAME",
    default="auto",
    help=f"For logs: the tool, {', '.join(formats())}. [default: auto, by content]",
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
    """Import logs, spreadsheets, and runs made elsewhere.

    PATHs are MLPerf training results (any tree whose leaves contain result_*.txt), MLPerf inference runs
    (folders with LoadGen's mlperf_log_*.txt, logs of the reference app) or logs of tf_cnn_benchmarks, which
    need a --name; or run directories of another Assay (a session, a suite's or a whole runs directory),
    which keep their names and are merged with those here by suite; or spreadsheets of any measurements as
    CSV, named after their file without a --name. Files are copied; importing the same again adds nothing.

    Logs and reports of nccl-tests, perftest, iperf3, PARAM, nvbandwidth, gpu-burn, Horovod's synthetic
    benchmark, timm, DeepLearningExamples, fio and MLPerf Storage can be imported as well, one file per run.
    Assay recognizes the tool by the log's content, and reports it together with the number of lines that it
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
    from assay.questions.import_ import import_

    imported = import_(
        *paths,
        name=name,
        system=system,
        shape=shape,
        round=round_,
        benchmark=benchmark,
        format=format_,
        runs=runs_dir,
        command_line=("assay", *sys.argv[1:]),
    )
    done = [_session_as_data(session) for session in imported.sessions]
    if as_json:
        echo_json({"schema": "assay.import/1", "sessions": done})
    else:
        for session in done:
            _show(session)
    for problem in imported.problems:
        click.echo(f"assay: {problem}", err=True)


def _session_as_data(imported_session: ImportedSession) -> dict[str, Any]:
    failed = [run for run in imported_session.runs if run.state.value == "failed"]
    return {
        "session": imported_session.session.id,
        "path": str(imported_session.session.path),
        "added": imported_session.added,
        "runs": len(imported_session.runs),
        "failed": [{"run": run.trial.id, "source": run.source, "cause": run.cause} for run in failed],
        "notes": list(imported_session.notes),
    }


def _show(done: dict[str, Any]) -> None:
    what = f"{done['runs']} runs" if done["runs"] != 1 else "1 run"
    click.echo(f"{done['session']}: {what}{'' if done['added'] else ', already present: nothing added'}")
    for failure in done["failed"]:
        click.echo(f"  {failure['run']} has no result: {failure['cause']}")
    alike: dict[str, list[str]] = {}
    for note in done["notes"]:
        alike.setdefault(_without_file_and_figures(note), []).append(note)
    for first, *others in alike.values():
        more = f" (and {counted(len(others), 'note')} like it; --json lists all)" if others else ""
        click.echo(f"  note: {first}{more}")


def _without_file_and_figures(note: str) -> str:
    """A note's text, without the path that it may start with."""
    head, _, rest = note.partition(": ")
    return re.sub(r"[\d.,]+", "#", rest if rest and " " not in head else note)

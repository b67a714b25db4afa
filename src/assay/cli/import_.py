"""`assay import`: logs and runs that others made."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.units import counted

if TYPE_CHECKING:
    from assay.api.imports import ImportedSession
    from assay.records import Shape


def _shape(_context: click.Context, _option: click.Parameter, text: str | None) -> Shape | None:
    from assay.records import Shape

    if text is None:
        return None
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


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
    Every other column is a label that tells figures apart. An empty value is a run that gave none. A CSV of
    `assay export` is known by its own columns and compares as the runs did.

    \b
    Examples:
      assay import v3.0/Supermicro --name ubuntu
      assay import v3.1/Supermicro-RedHat --name openshift
      assay compare ubuntu openshift
      assay import /mnt/other-machine/runs/resnet50-scaling
      assay import numbers.csv && assay compare numbers
    """
    from assay.api.imports import import_

    found = import_(
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
    done = [_plain(one) for one in found.sessions]
    if as_json:
        echo_json({"schema": "assay.import/1", "sessions": done})
    else:
        for one in done:
            _show(one)
    for problem in found.problems:
        click.echo(f"assay: {problem}", err=True)


def _plain(one: ImportedSession) -> dict[str, Any]:
    failed = [run for run in one.runs if run.state.value == "failed"]
    return {
        "session": one.session.id,
        "path": str(one.session.path),
        "added": one.added,
        "runs": len(one.runs),
        "failed": [{"run": run.trial.id, "source": run.source, "cause": run.cause} for run in failed],
        "notes": list(one.notes),
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

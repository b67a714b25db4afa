"""`assay queue list`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import JSON, RUNS, echo_json


@click.command("list")
@RUNS
@JSON
def command(runs_dir: Path, as_json: bool) -> None:
    """List what waits, runs and ended in the queue, oldest first."""
    from assay.questions.queue import queue

    run_queue = queue(runs=runs_dir)
    if as_json:
        echo_json(run_queue.document())
        return
    if not run_queue.runs:
        click.echo("The queue is empty.")
    for run in run_queue.runs:
        outcome = "" if run.outcome is None else f"{run.outcome.answer}: {run.outcome.words}"
        place = run.session or run.request.file
        row = f"{run.id}  {run.state:<11}  {place}  by {run.request.by}  {outcome}".rstrip()
        click.echo(" ".join(row.splitlines()))  # one row a request

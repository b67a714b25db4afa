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

    found = queue(runs=runs_dir)
    if as_json:
        from assay.documents.queue import document

        echo_json(document(found))
        return
    if not found.runs:
        click.echo("The queue is empty.")
    for one in found.runs:
        words = "" if one.outcome is None else f"{one.outcome.answer}: {one.outcome.words}"
        place = one.session or one.request.file
        row = f"{one.id}  {one.state:<11}  {place}  by {one.request.by}  {words}".rstrip()
        click.echo(" ".join(row.splitlines()))  # one row a request

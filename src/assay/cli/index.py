"""`assay index`: bring the index in line with the run directories."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_WORSE
from assay.units import counted


@click.command()
@click.option("--rebuild", is_flag=True, help="Start with an empty index and read every run directory.")
@RUNS
@JSON
def command(rebuild: bool, runs_dir: Path, as_json: bool) -> None:
    """Bring the index in line with the run directories: add what is new, remove what is gone.

    `assay run` and `assay import` do this themselves. It is only needed after run directories were copied,
    changed or deleted by hand. The index contains no data of its own: deleting it loses nothing.

    \b
    Examples:
      assay index
      assay index --rebuild

    Exits with 1 if a run directory can't be read, or if a session lacks a file; each is named, with what
    to do.
    """
    from assay.questions.index import index

    update = index(rebuild=rebuild, runs=runs_dir)
    if as_json:
        echo_json(
            {
                "schema": "assay.index/1",
                "index": str(update.path),
                "runs": update.runs,
                "read": update.read,
                "gone": update.gone,
                "made_anew": update.made_anew,
                "problems": [{"where": problem.where, "what": problem.what} for problem in update.problems],
            }
        )
    else:
        anew = f"; rebuilt: {update.made_anew}" if update.made_anew else ""
        click.echo(
            f"{update.path}: {counted(update.runs, 'run')}, {update.read} read, {update.gone} gone{anew}"
        )
    for problem in update.problems:
        click.echo(f"assay: {problem}", err=True)
    sys.exit(EXIT_WORSE if update.problems else EXIT_OK)

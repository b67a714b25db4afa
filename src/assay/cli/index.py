"""`assay index`: the index made to agree with the run directories."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.units import counted


@click.command()
@click.option("--rebuild", is_flag=True, help="Begin with an empty index and read every run directory.")
@RUNS
@JSON
def command(rebuild: bool, runs_dir: Path, as_json: bool) -> None:
    """Make the index agree with the run directories: take in what is new, drop what is gone.

    `assay run` and `assay import` do this themselves. It is needed after run directories were copied in,
    changed or deleted by hand. The index holds nothing of its own: deleting it loses nothing.

    \b
    Examples:
      assay index
      assay index --rebuild

    Exits with 1 when a run directory could not be read; it is named, and left out.
    """
    from assay import store
    from assay.run.index import update_index

    if not runs_dir.is_dir():
        raise InputError(f"{runs_dir}: there is no such directory; name one with --runs")
    why = "--rebuild" if rebuild else store.trouble(runs_dir)
    before = {} if why else store.known(runs_dir)
    problems = update_index(runs_dir, rebuild=rebuild)
    after = store.known(runs_dir)
    read = sum(before.get(run) != stamp for run, stamp in after.items())
    gone = len(before.keys() - after.keys())
    if as_json:
        echo_json(
            {
                "schema": "assay.index/1",
                "index": str(store.index_path(runs_dir)),
                "runs": len(after),
                "read": read,
                "gone": gone,
                "made_anew": why,
                "problems": [{"where": problem.where, "what": problem.what} for problem in problems],
            }
        )
    else:
        anew = f"; made anew: {why}" if why else ""
        click.echo(
            f"{store.index_path(runs_dir)}: {counted(len(after), 'run')}, {read} read, {gone} gone{anew}"
        )
    for problem in problems:
        click.echo(f"assay: {problem}", err=True)
    sys.exit(EXIT_WORSE if problems else EXIT_OK)

"""`assay init`: a commented starter suite for this machine."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

import click

from assay.cli.options import JSON, echo_json

_NEEDED = "torch"  # what the starter suite's benchmarks import


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--force", is_flag=True, help="Overwrite the two files if they exist.")
@JSON
def command(directory: Path, force: bool, as_json: bool) -> None:
    """Write suite.yaml and systems.yaml to DIRECTORY (created if missing; default: here).

    The suite fits this machine: its shapes and threads follow from the cores or GPUs that Assay may use. It
    compares this machine with itself, which shows the smallest difference that its runs can detect.

    \b
    Examples:
      assay init my-suite
      assay plan my-suite/suite.yaml    what it would run
      assay run my-suite/suite.yaml

    \b
    Exit codes: 0 written; 4 a file already exists and --force is not given; 5 a file can't be written.
    """
    from assay.questions.init import init

    files = init(directory, force=force)
    suite = files[0]
    if as_json:
        echo_json({"schema": "assay.init/1", "files": [str(path) for path in files], "suite": str(suite)})
        return
    for path in files:
        click.echo(f"Wrote {path}")
    quoted = shlex.quote(str(suite))
    click.echo(
        f"Next:\n  assay plan {quoted}    what it would run\n  assay run {quoted}     run it and show "
        "progress"
    )
    if importlib.util.find_spec(_NEEDED) is None:
        click.echo(
            f"{_NEEDED} is not installed in {sys.executable}, and this suite needs it. Install it first:\n"
            f"  pip install 'cluster-assay[{_NEEDED}]'"
        )

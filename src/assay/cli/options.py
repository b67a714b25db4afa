"""Options that many commands share, so that each word means the same everywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")


def default_runs_dir() -> Path:
    """Where runs are kept: $ASSAY_RUNS, else `runs/` here."""
    return Path(os.environ.get("ASSAY_RUNS", "runs"))


RUNS = click.option(
    "--runs",
    "runs_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=default_runs_dir,
    show_default="$ASSAY_RUNS or ./runs",
    help="Directory that holds the runs.",
)


def echo_json(value: Any) -> None:
    """One JSON document on standard output; plain data only."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))

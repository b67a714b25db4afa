"""Options shared by many commands, so that each name means the same everywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from assay.questions.evidence import runs_directory

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of text.")


RUNS = click.option(
    "--runs",
    "runs_dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=runs_directory,
    show_default="$ASSAY_RUNS or ./runs",
    help="Directory for the runs.",
)


class LocalOption(click.Option):
    """An option that names something on this machine, so that no server answers it."""


def echo_json(value: Any) -> None:
    """One JSON document on standard output; plain data only. Unencodable characters are escaped, not lost."""
    _echo_json(value, indent=2)


def echo_json_line(value: Any) -> None:
    """The same in a line of its own, for one of many documents: JSON Lines."""
    _echo_json(value, indent=None)


def _echo_json(value: Any, indent: int | None) -> None:
    whole = sys.stdout.encoding.lower().startswith("utf")
    click.echo(json.dumps(value, indent=indent, ensure_ascii=not whole, allow_nan=False))

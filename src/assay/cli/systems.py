"""The option for the systems file, for commands that take one without a suite."""

from __future__ import annotations

from pathlib import Path

import click

SYSTEMS = click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the system.  [default: systems.yaml here]",
)

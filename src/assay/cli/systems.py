"""The option that names the file of systems, for commands that take one without a suite."""

from __future__ import annotations

from pathlib import Path

import click

SYSTEMS = click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds the system.  [default: systems.yaml here]",
)

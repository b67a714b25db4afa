"""`assay stack export`: what runs observed, as a signed bundle for others."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli import options
from assay.units import counted


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write.",
)
@options.RUNS
@options.JSON
def command(output: Path, runs_dir: Path, as_json: bool) -> None:
    """Write what the runs of this directory observed of stacks as a signed bundle.

    Only what is known to be public goes into it: Assay's own workloads, packages on PyPI, versions, figures,
    the day. Hostnames, users, paths, names of suites, the environment and texts of logs stay here. The key
    is made on first use; those who import the bundle have to trust it.

    \b
    Example:
      assay stack export -o observations.json
    """
    from assay.stacks.sharing import export_stacks

    exported = export_stacks(output, runs=runs_dir)
    if as_json:
        options.echo_json(
            {
                "schema": "assay.stack-export/1",
                "path": str(exported.path),
                "key": exported.key,
                "shared": exported.shared,
                "withheld": exported.withheld,
            }
        )
        return
    click.echo(f"{exported.path}: {counted(exported.shared, 'observation')}, signed by {exported.key}")
    if exported.withheld:
        click.echo(
            f"Withheld: {counted(exported.withheld, 'observation')} of workloads or hardware "
            "that may be private."
        )
    click.echo("Those who import it first run, with the key from you and not from the file:")
    click.echo(f"  assay stack trust {exported.key}")

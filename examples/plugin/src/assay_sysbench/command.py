"""`assay spread`: the slowest and the fastest run of each result."""

from __future__ import annotations

from pathlib import Path

import click

import assay


@click.command()
@click.argument("reference")
@click.option("--runs", type=click.Path(path_type=Path), help="Directory of the runs.")
def spread(reference: str, runs: Path | None) -> None:
    """Show the lowest and the highest value of each result of REFERENCE.

    \b
    Example:
      assay spread primes
    """
    for system in assay.show(reference, runs=runs).systems:
        for result in system.points:
            point, values = result.group.point, result.group.values
            click.echo(f"{system.name}  {point.metric}: {min(values):.4g} to {max(values):.4g} {point.unit}")

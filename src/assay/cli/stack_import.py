"""`assay stack import`: take in what others observed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from assay.cli import options
from assay.errors import EXIT_OK, EXIT_WORSE
from assay.units import counted


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@options.RUNS
@options.JSON
def command(bundle: Path, runs_dir: Path, as_json: bool) -> None:
    """Take in BUNDLE, which a trusted key signed.

    It is kept unchanged, and counts as long as its key is trusted. If it contradicts what the same party
    stated before, the earlier statement stays and both are shown.

    \b
    Example:
      assay stack trust ed25519:…   --name lab-b
      assay stack import observations.json

    \b
    Exit codes: 0 imported; 1 imported, with conflicts; 4 not a bundle, changed, or of an unknown key.
    """
    from assay.stacks.sharing import import_stacks

    imported = import_stacks(bundle, runs=runs_dir)
    conflicts = [
        {
            "session": conflict.kept.session,
            "stack": conflict.kept.stack.digest,
            "kept": [list(value) for value in conflict.kept.values],
            "other": [list(value) for value in conflict.other.values],
        }
        for conflict in imported.conflicts
    ]
    if as_json:
        options.echo_json(
            {
                "schema": "assay.stack-import/1",
                "key": imported.key,
                "name": imported.name,
                "observations": imported.observations,
                "added": imported.added,
                "conflicts": conflicts,
            }
        )
    else:
        by = f"{imported.name} ({imported.key})" if imported.name else imported.key
        click.echo(
            f"{counted(imported.observations, 'observation')} of {by}, "
            f"{imported.added or 'none'} of them new."
        )
        for conflict in conflicts:
            click.echo(f"! conflict in session {conflict['session']}, stack {conflict['stack'][:8]}:")
            click.echo(f"    kept   {conflict['kept']}")
            click.echo(f"    other  {conflict['other']}")
    sys.exit(EXIT_WORSE if conflicts else EXIT_OK)

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
    from assay.questions.stack_sharing import import_stacks

    made = import_stacks(bundle, runs=runs_dir)
    conflicts = [
        {
            "session": one.kept.session,
            "stack": one.kept.stack.digest,
            "kept": [list(value) for value in one.kept.values],
            "other": [list(value) for value in one.other.values],
        }
        for one in made.conflicts
    ]
    if as_json:
        options.echo_json(
            {
                "schema": "assay.stack-import/1",
                "key": made.key,
                "name": made.name,
                "observations": made.observations,
                "added": made.added,
                "conflicts": conflicts,
            }
        )
    else:
        by = f"{made.name} ({made.key})" if made.name else made.key
        click.echo(
            f"{counted(made.observations, 'observation')} of {by}, {made.added or 'none'} of them new."
        )
        for one in conflicts:
            click.echo(f"! conflict in session {one['session']}, stack {one['stack'][:8]}:")
            click.echo(f"    kept   {one['kept']}")
            click.echo(f"    other  {one['other']}")
    sys.exit(EXIT_WORSE if conflicts else EXIT_OK)

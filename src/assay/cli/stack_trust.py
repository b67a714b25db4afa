"""`assay stack trust`: whose observations count."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli import options


@click.command()
@click.argument("key", required=False)
@click.option("--name", default="", metavar="TEXT", help="What to call the key's owner.")
@click.option("--remove", is_flag=True, help="Stop trusting the key: its bundles no longer count.")
@options.RUNS
@options.JSON
def command(key: str | None, name: str, remove: bool, runs_dir: Path, as_json: bool) -> None:
    """Trust KEY: bundles that it signed can be imported, and count. Without KEY, show the keys.

    Get the key from its owner by another way than the bundle itself.

    \b
    Examples:
      assay stack trust
      assay stack trust ed25519:… --name lab-b
      assay stack trust ed25519:… --remove
    """
    from assay.stacks.sharing import trust_key

    keys = trust_key(key, name=name, remove=remove, runs=runs_dir)
    if as_json:
        options.echo_json({"schema": "assay.stack-keys/1", "own": keys.own, "trusted": dict(keys.trusted)})
        return
    click.echo(f"own      {keys.own}")
    for trusted, owner in sorted(keys.trusted.items()):
        click.echo(f"trusted  {trusted}  {owner}".rstrip())

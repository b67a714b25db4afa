"""`assay data cache`: the sets of frames that trials left in a cache."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import JSON, echo_json


@click.command("cache")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--remove", multiple=True, metavar="SET", help="Remove this set; repeatable.")
@JSON
def command(directory: Path, remove: tuple[str, ...], as_json: bool) -> None:
    """Show the sets of frames in a cache, the least recently used first.

    A cache is the directory `to` of a suite's `data`, or that of `assay data stage --space`, on the machine
    where this command runs. When a cache needs space, it removes the first of these sets that nobody uses.

    \b
    Examples:
      assay data cache /scratch/assay
      assay data cache /scratch/assay --remove 6ae75103bec7c81c

    \b
    Exit codes: 0 the sets are listed; 4 there is no cache, or no such set; 5 a set is in use, or can't be
    removed.
    """
    from assay.questions.stage_data import staged_sets
    from assay.units import counted, human

    sets = staged_sets(directory, remove=remove)
    if as_json:
        from dataclasses import asdict

        plain = [asdict(cached_set) for cached_set in sets]
        echo_json({"sets": plain, "bytes": sum(cached_set.bytes for cached_set in sets)})
        return
    from datetime import UTC, datetime

    from rich.table import Table
    from rich.text import Text

    from assay.cli.console import Console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("set", "frames", "size", "last used (UTC)", "", "of", "chosen by"):
        table.add_column(heading, justify="right" if heading in ("frames", "size") else "left", no_wrap=True)
    for cached_set in sets:
        used = datetime.fromtimestamp(cached_set.used_at, UTC).strftime("%Y-%m-%d %H:%M")
        cells = (
            cached_set.name,
            f"{cached_set.frames:,}",
            human(float(cached_set.bytes), "B"),
            used,
            "in use" if cached_set.in_use else "",
        )
        table.add_row(*map(Text, (*cells, cached_set.root, cached_set.query)))
    if sets:
        Console(highlight=False, width=400).print(table)
    size = human(float(sum(cached_set.bytes for cached_set in sets)), "B")
    click.echo(f"{counted(len(sets), 'set')}, {size}")

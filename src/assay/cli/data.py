"""`assay data`: labelled data sets: a catalog of their frames, and subsets chosen from it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "scan": ("assay.cli.data_scan:command", "Bring a catalog of labelled frames up to date."),
    "query": ("assay.cli.data_query:command", "Choose frames by what is on them."),
    "stage": ("assay.cli.data_stage:command", "Copy chosen frames near to where they are read."),
    "submit": ("assay.cli.data_submit:command", "Run a site's template on frames chosen by their labels."),
    "validate": ("assay.cli.data_validate:command", "Count what a trained network makes of every frame."),
    "cache": ("assay.cli.data_cache:command", "Show which frames a cache has, and remove them."),
    "check": ("assay.cli.data_check:command", "Read a training's whole data set once, before it begins."),
    "feeds": ("assay.cli.data_feeds:command", "Show how many accelerators a storage feeds."),
    "classes": ("assay.cli.data_classes:command", "Show how much of each class there is."),
}
CATALOG = click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    default=lambda: Path(os.environ.get("ASSAY_CATALOG") or "catalog.duckdb"),
    show_default="$ASSAY_CATALOG or ./catalog.duckdb",
    help="File of the catalog.",
)


@click.group(cls=CommandGroup, commands=COMMANDS)
def command() -> None:
    """Catalog labelled frames, see what is on them, and choose those that a training takes.

    \b
    Examples:
      assay data scan /data/camera_lidar_semantic
      assay data classes
      assay data query 'bicycle > 0 and camera = cam_front_center' --manifest bicycles.jsonl
    """

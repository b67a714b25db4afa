"""`assay data`: labelled data sets: a catalog of their frames, and subsets chosen from it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "scan": ("data_scan", "Bring a catalog of labelled frames up to date."),
    "query": ("data_query", "Choose frames by what is on them."),
    "stage": ("data_stage", "Copy chosen frames near to where they are read."),
    "submit": ("data_submit", "Run a site's template on frames chosen by their labels."),
    "validate": ("data_validate", "Count what a trained network makes of every frame."),
    "cache": ("data_cache", "Show which frames a cache has, and remove them."),
    "check": ("data_check", "Read a training's whole data set once, before it begins."),
    "feeds": ("data_feeds", "Show how many accelerators a storage feeds."),
    "classes": ("data_classes", "Show how much of each class there is."),
}
CATALOG = click.option(
    "--catalog",
    type=click.Path(path_type=Path, dir_okay=False),
    default=lambda: Path(os.environ.get("ASSAY_CATALOG") or "catalog.duckdb"),
    show_default="$ASSAY_CATALOG or ./catalog.duckdb",
    help="File of the catalog.",
)


@click.group(cls=CommandGroup, modules=COMMANDS)
def command() -> None:
    """Catalog labelled frames, see what is on them, and choose those that a training takes.

    \b
    Examples:
      assay data scan /data/camera_lidar_semantic
      assay data classes
      assay data query 'bicycle > 0 and camera = cam_front_center' --manifest bicycles.jsonl
    """

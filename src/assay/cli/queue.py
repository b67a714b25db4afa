"""`assay queue`: runs that wait for their turn."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "list": ("queue_list", "List what waits, runs and ended."),
    "add": ("queue_add", "Put a suite at the end of the queue."),
    "stop": ("queue_stop", "Stop a run, or keep it from starting."),
    "work": ("queue_work", "Run what waits, one after the other, until nothing does."),
}


@click.group(cls=CommandGroup, modules=COMMANDS)
def command() -> None:
    """Run suites one after the other; a browser with `assay serve --allow run` adds to the same queue.

    \b
    Examples:
      assay queue add my-suite/suite.yaml
      assay queue list
    """

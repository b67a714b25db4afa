"""`assay queue`: runs that wait for their turn."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "list": ("assay.cli.queue_list:command", "List what waits, runs and ended."),
    "add": ("assay.cli.queue_add:command", "Put a suite at the end of the queue."),
    "stop": ("assay.cli.queue_stop:command", "Stop a run, or keep it from starting."),
    "work": ("assay.cli.queue_work:command", "Run what waits, one after the other, until nothing does."),
}


@click.group(cls=CommandGroup, commands=COMMANDS)
def command() -> None:
    """Run suites one after the other; a browser with `assay serve --allow run` adds to the same queue.

    \b
    Examples:
      assay queue add my-suite/suite.yaml
      assay queue list
    """

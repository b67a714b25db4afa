"""`assay stack`: which software runs how fast where, and the software that a workload needs."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "list": ("assay.cli.stack_list:command", "List the stacks that runs have observed."),
    "show": ("assay.cli.stack_show:command", "Show what is known of a stack."),
    "diff": (
        "assay.cli.stack_diff:command",
        "Show what differs between two stacks, and what is known of it.",
    ),
    "advise": (
        "assay.cli.stack_advise:command",
        "Lock the versions to install for a goal, with the reasons.",
    ),
    "indicators": ("assay.cli.stack_indicators:command", "Show how well indicators predict workloads."),
    "export": ("assay.cli.stack_export:command", "Write what runs observed as a signed bundle for others."),
    "import": ("assay.cli.stack_import:command", "Take in a bundle that others signed."),
    "trust": ("assay.cli.stack_trust:command", "Trust a key, or show the keys."),
    "explore": ("assay.cli.stack_explore:command", "Build and measure many stacks; find which is faster."),
    "bisect": (
        "assay.cli.stack_bisect:command",
        "Find the change that made a stack slower, or made it fail.",
    ),
    "containerfile": (
        "assay.cli.stack_containerfile:command",
        "Print a container file for a workload or a lock.",
    ),
    "build": ("assay.cli.stack_build:command", "Build a container file, test the image, push it."),
}


@click.group(cls=CommandGroup, commands=COMMANDS)
def command() -> None:
    """Show which software runs how fast where; write a container file for a workload.

    \b
    Examples:
      assay stack list
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
    """

"""`assay stack`: which software runs how fast where, and the software that a workload needs."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "list": ("stack_list", "List the stacks that runs have observed."),
    "show": ("stack_show", "Show what is known of a stack."),
    "diff": ("stack_diff", "Show what differs between two stacks, and what is known of it."),
    "advise": ("stack_advise", "Lock the versions to install for a goal, with the reasons."),
    "indicators": ("stack_indicators", "Show how well indicators predict workloads."),
    "export": ("stack_export", "Write what runs observed as a signed bundle for others."),
    "import": ("stack_import", "Take in a bundle that others signed."),
    "trust": ("stack_trust", "Trust a key, or show the keys."),
    "explore": ("stack_explore", "Build and measure many stacks; find which is faster."),
    "bisect": ("stack_bisect", "Find the change that made a stack slower, or made it fail."),
    "containerfile": ("stack_containerfile", "Print a container file for a workload or a lock."),
    "build": ("stack_build", "Build a container file, test the image, push it."),
}


@click.group(cls=CommandGroup, modules=COMMANDS)
def command() -> None:
    """Show which software runs how fast where; write a container file for a workload.

    \b
    Examples:
      assay stack list
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
    """

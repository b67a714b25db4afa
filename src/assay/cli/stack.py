"""`assay stack`: which software runs how fast where, and the software that a workload needs."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "list": ("stack_list", "List the stacks that runs have observed."),
    "show": ("stack_show", "Show what is known of a stack."),
    "diff": ("stack_diff", "Show what differs between two stacks, and what is known of it."),
    "advise": ("stack_advise", "Lock the versions to install for a goal, with the reasons."),
    "export": ("stack_export", "Write what runs observed as a signed bundle for others."),
    "import": ("stack_import", "Take in a bundle that others signed."),
    "trust": ("stack_trust", "Trust a key, or show the keys."),
    "explore": ("stack_explore", "Build and measure many stacks; find which is faster."),
    "containerfile": ("stack_containerfile", "Print a container file for a workload."),
}


class StackGroup(click.Group):
    """Its commands by name, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which users need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; None if there is no command with this name."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"assay.cli.{COMMANDS[cmd_name][0]}").command
        return found


@click.group(cls=StackGroup)
def command() -> None:
    """Show which software runs how fast where; write a container file for a workload.

    \b
    Examples:
      assay stack list
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
    """

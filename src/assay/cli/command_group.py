"""A group of commands that are imported on demand."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import click

from assay.registry import CommandTable, imported


class CommandGroup(click.Group):
    """Commands by name: the location of each, or of its question, and what it is for."""

    def __init__(self, *args: Any, commands: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._commands = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which users need them."""
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; None if there is no command with this name."""
        if cmd_name not in self._commands:
            return None
        return command_at(imported(self._commands[cmd_name][0]))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self._commands.items()])


def command_at(entry: Any) -> click.Command:
    """The command of what is at a location: a command, a question, or the table of a group."""
    if isinstance(entry, click.Command):
        return entry
    if isinstance(entry, CommandTable):
        return CommandGroup(help=inspect.cleandoc(entry.about), commands=entry.commands)
    from assay.cli.question_command import command_of
    from assay.questions.question import Question

    if isinstance(entry, type) and issubclass(entry, Question):
        return command_of(entry)
    raise TypeError(f"is a {type(entry).__name__}; expected a click command or a Question")

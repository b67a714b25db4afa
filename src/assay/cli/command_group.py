"""A group of commands that are imported on demand."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class CommandGroup(click.Group):
    """Commands by name: the module of each below `assay.cli`, and what it is for."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which users need them."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; None if there is no command with this name."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = importlib.import_module(f"assay.cli.{self._modules[cmd_name][0]}").command
        return command

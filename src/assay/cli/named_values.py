"""Options that are given many times as NAME=VALUE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import click

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


Read = Callable[[tuple[str, ...]], Mapping[str, Any]]


def named(read: Read) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], Mapping[str, Any]]:
    """An option's callback: values by name, as this function reads them."""

    def callback(
        _context: click.Context, _option: click.Parameter, arguments: tuple[str, ...]
    ) -> Mapping[str, Any]:
        try:
            return read(arguments)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def variables(
    _context: click.Context, _option: click.Parameter, arguments: tuple[str, ...]
) -> dict[str, str]:
    """An option's callback: variables of an environment, whose values keep every blank."""
    values_by_name: dict[str, str] = {}
    for text in arguments:
        name, mark, value = text.partition("=")
        if not mark or not _VARIABLE.fullmatch(name):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, like OMP_NUM_THREADS=1")
        if name in values_by_name:
            raise click.BadParameter(f"{name} is given twice")
        values_by_name[name] = value
    return values_by_name

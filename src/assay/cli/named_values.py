"""Options that are given many times as NAME=VALUE."""

from __future__ import annotations

import json
import re

import click

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def texts(_context: click.Context, _option: click.Parameter, arguments: tuple[str, ...]) -> dict[str, str]:
    """An option's callback: values as they were typed, by name."""
    values_by_name: dict[str, str] = {}
    for text in arguments:
        name, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        if name in values_by_name:
            raise click.BadParameter(f"{name} is given twice")
        values_by_name[name] = value
    return values_by_name


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


def values(context: click.Context, option: click.Parameter, arguments: tuple[str, ...]) -> dict[str, object]:
    """The same, with values as JSON, or as the text that they are: `batch_size=2`, `camera=cam_side_left`."""
    return {name: _value(text) for name, text in texts(context, option, arguments).items()}


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=lambda constant: constant)
    except (ValueError, RecursionError):
        return text

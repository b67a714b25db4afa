"""Options that are given many times as NAME=VALUE."""

from __future__ import annotations

import json
import re

import click

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def texts(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """An option's callback: values as they were typed, by name."""
    found: dict[str, str] = {}
    for text in given:
        name, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = value
    return found


def variables(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """An option's callback: variables of an environment, whose values keep every blank."""
    found: dict[str, str] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not _VARIABLE.fullmatch(name):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, like OMP_NUM_THREADS=1")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = value
    return found


def values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, object]:
    """The same, with values as JSON, or as the text that they are: `batch_size=2`, `camera=cam_side_left`."""
    return {name: _value(text) for name, text in texts(context, option, given).items()}


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=lambda constant: constant)
    except (ValueError, RecursionError):
        return text

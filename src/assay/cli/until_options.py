"""The options for a run until decided: those of `assay run`, and of `assay plan`, which shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from assay.cli.options import duration

_OPTIONS = (
    click.option(
        "--until",
        type=click.Choice(["decided"]),
        help="Continue, block by block, until every primary comparison is decided.",
    ),
    click.option(
        "--max-repeats",
        type=click.IntRange(3, 200),
        help="With --until: maximum number of blocks; another number is another test. [default: 20]",
    ),
    click.option(
        "--max-time",
        callback=duration,
        metavar="TIME",
        help="With --until: start no block once trials have taken this long, such as 90min or 8h. "
        "A block that has started is completed.",
    ),
)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def until_options(command: _Command) -> _Command:
    """--until, --max-repeats and --max-time, in this order in the help."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_limits(until: str | None, max_repeats: int | None, max_time_s: float | None) -> None:
    """Raises UsageError for limits without --until."""
    if until is None and (max_repeats or max_time_s):
        raise click.UsageError(
            "--max-repeats and --max-time limit a run with --until decided; add --until decided"
        )

"""What goes on, on a terminal: a screen that is drawn again in place, and the lines that it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from assay.cli.options import echo_json_line
from assay.errors import EXIT_OK

if TYPE_CHECKING:
    from rich.live import Live

    from assay.questions.question import Snapshot


def show_snapshots(snapshots: Iterator[Snapshot], *, as_json: bool) -> int:
    """Show each; returns the exit code of the last."""
    exit_code, screen = EXIT_OK, None
    with ExitStack() as held:
        for snapshot in snapshots:
            exit_code = snapshot.exit_code
            if snapshot.screen:
                from assay.view import terminal

                screen = screen or held.enter_context(_screen(is_whole=snapshot.is_whole))
                screen.update(terminal.shown(snapshot.screen), refresh=True)
            if snapshot.is_last:
                held.close()
            for document in snapshot.data if as_json else ():
                echo_json_line(document)
            for line in () if as_json else snapshot.lines:
                click.echo(line)
            for note in snapshot.notes:
                click.echo(note, err=True)
    return exit_code


def _screen(*, is_whole: bool) -> Live:
    from rich.live import Live

    from assay.cli.console import Console

    console = Console(highlight=False)
    return Live(console=console, auto_refresh=False, screen=is_whole, transient=not is_whole)

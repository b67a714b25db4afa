"""`assay queue stop`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import RUNS


@click.command("stop")
@click.argument("name", metavar="RUN")
@RUNS
def command(name: str, runs_dir: Path) -> None:
    """Stop RUN of the queue, or keep it from starting.

    What it started is ended, as after Ctrl-C; the same suite resumes its session.
    """
    from assay.questions.queue import stop_queued
    from assay.queue import own_user_name

    stop_queued(name, own_user_name(), runs=runs_dir)

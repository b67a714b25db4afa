"""`assay queue add`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from assay.cli.options import RUNS


@click.command("add")
@click.argument("suite", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--system", "only", multiple=True, metavar="NAME", help="Run only this system; repeatable.")
@click.option("--new", is_flag=True, help="Start a new session even if one is unfinished.")
@click.option("--failed", is_flag=True, help="Repeat the failed trials of the newest session.")
@RUNS
def command(suite: Path, only: tuple[str, ...], new: bool, failed: bool, runs_dir: Path) -> None:
    """Put SUITE at the end of the queue, and see that a process takes it.

    That process goes on when this command, or a server, ends. Its progress is in the queue's directory.

    \b
    Exit codes: 0 it is in the queue; 4 it can't be run as written; 6 too many wait.
    """
    if new and failed:
        raise click.UsageError("--failed repeats trials of an existing session; --new starts another one")
    from assay.questions.queue import enqueue
    from assay.queue import QueueRequest, own_user_name

    request = QueueRequest(str(suite.resolve()), own_user_name(), time.time(), only, failed=failed, new=new)
    click.echo(enqueue(request, runs=runs_dir).id)

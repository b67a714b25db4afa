"""`assay queue work`: the process that a queue's runs have."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import RUNS


@click.command("work")
@click.option("--run", "name", metavar="RUN", help="Only this one, in this process.")
@RUNS
def command(name: str | None, runs_dir: Path) -> None:
    """Run what waits in the queue, one after the other, until nothing does.

    It is started by itself when something is added; start it by hand after a machine was restarted. A run
    whose process was killed is resumed, up to three times.

    \b
    Exit codes: 0 nothing waits; 6 another process works on the queue.
    """
    from assay.questions.queue import work_on, work_queue

    if name is None:
        work_queue(runs=runs_dir)
        return
    from assay.cli.progress import teller

    work_on(name, tell=teller(quiet=False), runs=runs_dir)

"""`assay top`: what runs now, live."""

from __future__ import annotations

import sys
import time
from typing import Any

from assay.cli.question_command import command_of
from assay.monitor.questions.top import Top

command = command_of(Top)
print_once = command.callback


def _show(*, reference: str, once: bool, every_s: float, as_json: bool, runs_dir: Any) -> None:
    """Print once, or on a terminal again and again."""
    question = Top(reference, once=once, every_s=every_s, runs=runs_dir)
    if as_json or once or not sys.stdout.isatty():
        assert print_once is not None
        print_once(as_json=as_json, runs_dir=runs_dir, reference=reference, once=once, every_s=every_s)
    from rich.live import Live

    from assay.cli.console import Console
    from assay.view import terminal

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as screen:
        while True:
            screen.update(terminal.shown(question.answer().view()), refresh=True)
            time.sleep(every_s)


command.callback = _show

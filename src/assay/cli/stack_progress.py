"""Progress of reading what runs observed of stacks, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading() -> Iterator[Callable[[int, int], None] | None]:
    """A bar with the time left on standard error; nothing if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    from assay.cli.console import Console

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading sessions", total=None, visible=False)

        def progress(done: int, in_all: int) -> None:
            bar.update(task, completed=done, total=in_all, visible=in_all > 1)

        yield progress

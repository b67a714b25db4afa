"""What the library reports while it works, on standard error: `assay: …`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click


class _Messages(logging.Handler):
    """Prints each record as one line on the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"assay: {record.getMessage()}", err=True)


@contextmanager
def messages() -> Iterator[None]:
    """Print what the library reports for the duration of a command."""
    log, handler = logging.getLogger("assay"), _Messages()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)

"""A process that Assay did not start, watched while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.monitor.watching import Watching


def watch(pid: int, *, every: str | float = 1.0, for_: str | float | None = None) -> Iterator[Watching]:
    """Samples of a process on this machine, of its node and GPUs, like `assay watch --pid PID`.

    pid    the process; everything below it belongs to it
    every  between samples: `"500ms"`, `"10s"` or seconds
    for_   how long; None: until it ends

    Each sample updates and yields the same record. Raises InputError if there is no such process, or for a
    time that is not one.
    """
    from assay.monitor.watching import watch as watched

    try:
        period_s, for_s = seconds(every), None if for_ is None else seconds(for_)
    except ValueError as error:
        raise InputError(str(error)) from None
    return watched(pid, period_s, for_s)

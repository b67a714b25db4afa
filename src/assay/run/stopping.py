"""Ctrl-C and SIGTERM as a wish that is looked at where it is safe to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the user wants to stop, and by which signal."""

    def __init__(self) -> None:
        self.by: signal.Signals | None = None

    @property
    def made(self) -> bool:
        """Someone asked to stop."""
        return self.by is not None

    def note(self, number: int, _frame: FrameType | None = None) -> None:
        """A signal handler. The second Ctrl-C does not wait: raises KeyboardInterrupt."""
        if self.by is not None:
            raise KeyboardInterrupt
        self.by = signal.Signals(number)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within, the first SIGINT or SIGTERM is noted instead of interrupting what is being written."""
    request = StopRequest()
    before = {number: signal.signal(number, request.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Ctrl-C and SIGTERM as a wish that is looked at where it is safe to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the user wants to stop, and by which signal."""

    def __init__(self) -> None:
        self.by: signal.Signals | None = None
        self._waits = True

    @property
    def made(self) -> bool:
        """Someone asked to stop."""
        return self.by is not None

    def note(self, number: int, _frame: FrameType | None = None) -> None:
        """A signal handler. The second Ctrl-C does not wait: raises KeyboardInterrupt."""
        if self.by is not None or not self._waits:
            raise KeyboardInterrupt
        self.by = signal.Signals(number)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within, the first Ctrl-C does not wait either: for what only reads, however long it takes.

        In another thread than the main one, where no signal arrives, nothing changes.
        """
        self._waits = threading.current_thread() is not threading.main_thread()
        try:
            yield
        finally:
            self._waits = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within, the first SIGINT or SIGTERM is noted instead of interrupting what is being written.

    In another thread than the main one no signal arrives, so none is noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

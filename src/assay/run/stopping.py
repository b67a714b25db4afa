"""Ctrl-C and SIGTERM: as a request that is checked where it is safe to stop, or both at once as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class StopRequest:
    """Whether the user wants to stop, and by which signal."""

    def __init__(self) -> None:
        self.by: signal.Signals | None = None
        self._waits = True

    @property
    def made(self) -> bool:
        """Whether someone requested a stop."""
        return self.by is not None

    def note(self, number: int, _frame: FrameType | None = None) -> None:
        """A signal handler. The second Ctrl-C raises KeyboardInterrupt at once."""
        if self.by is not None or not self._waits:
            raise KeyboardInterrupt
        self.by = signal.Signals(number)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """In this context, even the first Ctrl-C takes effect at once: for reading, however long it takes.

        Has no effect outside the main thread, where no signal arrives.
        """
        self._waits = threading.current_thread() is not threading.main_thread()
        try:
            yield
        finally:
            self._waits = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """In this context, the first SIGINT or SIGTERM is recorded instead of interrupting a write.

    Outside the main thread no signal arrives, so none is recorded.
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


@contextmanager
def terminable() -> Iterator[None]:
    """In this context, SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    A signal that was ignored, as `nohup` does, stays ignored. Outside the main thread no signal arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt

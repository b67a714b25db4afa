"""The threads that answers are made in, beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerThreads(ThreadPoolExecutor):
    """A pool of threads in which every error of a handler becomes an answer and a line of the log.

    asyncio can't deliver StopIteration from a thread: its reader would wait for ever, and nobody would know.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call it in one of the threads; StopIteration, such as of `next`, becomes RuntimeError."""

        def delivered() -> T:
            try:
                return fn(*args, **kwargs)
            except StopIteration as error:
                raise RuntimeError("StopIteration in a handler") from error

        return super().submit(delivered)

"""Servers of the standard library, in a thread for as long as a test needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer


@contextmanager
def served(server: BaseServer) -> Iterator[None]:
    """Serve in a thread; however the test ends, the thread ends before the socket is closed.

    A loop that goes on over a closed socket takes a whole core until the process ends.
    """
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A browser's connection: how long and how often a client may keep the server waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0  # from the first byte of a request, or the begin of a connection, to the end of its headers


class BoundedConnection(H11Protocol):
    """Uvicorn's connection, which ends when its request is too slow, or to make room for others.

    A server takes a number of connections. If they are used up, the one ends that waits for its client: of
    the address with the most of these, the one that waits longest. So clients who send half of a request, or
    don't read an answer, keep nobody else out.
    """

    def connection_made(self, transport: Any) -> None:
        """Begin, and make room if there is none."""
        super().connection_made(transport)
        self._began_at = self.loop.time()
        self._head_timer: asyncio.TimerHandle | None = None
        self._await_head()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; of the first part of another one, count the time from now on."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._began_at = self.loop.time()
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._end_timer()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether it waits for its client: for the rest of a request, for the next, or to read an answer."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return self.cycle.more_body or self.flow.write_paused

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _make_room(self) -> None:
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, BoundedConnection) and connection is not self and connection.waits
        ]
        if waiting:
            of_address = Counter(connection.client[0] for connection in waiting if connection.client)
            last = max(
                waiting,
                key=lambda connection: (
                    of_address[connection.client[0]] if connection.client else 0,
                    -connection._began_at,
                ),
            )
            self.connections.discard(last)
            last.transport.abort()

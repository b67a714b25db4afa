"""What stands before every answer: slow and too many connections, foreign requests, and harmless pages."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Any

import h11
from h11 import LocalProtocolError
from litestar.types import ASGIApp, Message, Receive, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assay.web.refusals import refusal

LONGEST_ADDRESS = 8192  # bytes of path and query
MOST_STREAMS = 100  # open at once, over all browsers
READING = frozenset({"GET", "HEAD"})
ACTING = READING | {"POST", "PUT"}

_log = logging.getLogger("assay")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def own_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Host names that a request may be for: a page of another site can't make its own name point here.

    host  that the server listens on
    more  names by which a proxy is reached
    """
    local = {"localhost", socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in (*local, host, *more) if name)


class Guard:
    """The application behind these checks, as an ASGI application."""

    def __init__(self, app: ASGIApp, names: frozenset[str], methods: frozenset[str]) -> None:
        self._app, self._names, self._methods = app, names, methods

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Refuse the request, or answer it with the headers of every page."""
        try:
            await self._answer(scope, receive, send)
        except LocalProtocolError as error:  # its body is no HTTP: the connection has said so, and has ended
            _log.info("a request ended: %s", error)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            status, detail = refused
            headers = [*_headers(), *([(b"allow", b"GET, HEAD")] if status == 405 else [])]
            await refusal(scope, status, detail, headers)(send)
            return
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope["method"] = "GET"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_headers()]
            elif is_head and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        await self._app(scope, receive, sent)

    def _refused(self, scope: Any) -> tuple[int, str] | None:
        host = next((v.decode("latin-1") for k, v in scope["headers"] if k == b"host"), "")
        if not self._is_own(host):
            detail = f"This server does not answer for the host {host!r}; --host NAME allows a name."
            return 421, detail
        if scope["method"] not in self._methods:
            more = "" if "POST" in self._methods else "; --allow and --tokens let it take more"
            return 405, f"This server takes {', '.join(sorted(self._methods))}{more}."
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            return 414, f"The address is longer than {LONGEST_ADDRESS} bytes."
        return None

    def _is_own(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or not (port.isascii() and port.isdecimal()):
            name = host
        elif int(port[:6]) > 65535:
            return False
        if name.strip("[]").lower().rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True  # nobody can make an address point elsewhere


def _headers() -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


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

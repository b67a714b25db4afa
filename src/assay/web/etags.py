"""A digest of each answer as its ETag, so that a browser that has it already is only told so."""

from __future__ import annotations

import hashlib
from typing import Any

from litestar.types import ASGIApp, Message, Receive, Send


class ETags:
    """The application with ETags on whole answers; streams pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer, or say that nothing has changed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        held: list[Any] = []

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                held.append(message)
                return
            if held:
                start = held.pop()
                message = _tagged(start, message, known)
                await send(start)
            await send(message)

        await self._app(scope, receive, sent)


def _tagged(start: Any, body: Any, known: bytes) -> Any:
    """The body to send after `start`, which gets the ETag: nothing if the browser has it."""
    if body.get("more_body"):
        return body
    tag = b'"' + hashlib.sha256(body.get("body", b"")).hexdigest()[:32].encode() + b'"'
    start["headers"] = [*start.get("headers", []), (b"etag", tag)]
    if tag not in [sent_tag.strip().removeprefix(b"W/") for sent_tag in known.split(b",")]:
        return body
    start["status"] = 304
    start["headers"] = [
        pair for pair in start["headers"] if pair[0] not in (b"content-length", b"content-type")
    ]
    return {**body, "body": b""}

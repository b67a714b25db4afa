"""Answers to requests that don't reach the application: a problem document for the API, else one line."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

from litestar.types import Send

API = "/api/v1"

PROBLEM_TYPE = "application/problem+json"

Header = tuple[bytes, bytes]


def problem(status: int, detail: str) -> dict[str, Any]:
    """The problem document, RFC 9457."""
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}


def refusal(
    scope: Any, status: int, detail: str, headers: Sequence[Header] = ()
) -> Callable[[Send], Awaitable[None]]:
    """A function that sends the refusal: a problem document for the API, otherwise plain text."""
    if scope["path"].startswith(API):
        text, media_type = json.dumps(problem(status, detail)), PROBLEM_TYPE.encode()
    else:
        text, media_type = detail, b"text/plain; charset=utf-8"
    content = text.encode("utf-8", errors="backslashreplace")

    async def answer(send: Send) -> None:
        about = [(b"content-type", media_type), (b"content-length", b"%d" % len(content))]
        start: Any = {"type": "http.response.start", "status": status, "headers": [*about, *headers]}
        body: Any = {"type": "http.response.body", "body": content, "more_body": False}
        await send(start)
        await send(body)

    return answer

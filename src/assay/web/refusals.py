"""Answers to requests that get none: a problem document for the API, else one line, and their description."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from litestar.openapi import ResponseSpec
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


@dataclass(frozen=True)
class ProblemDocument:
    """Why there is no answer, RFC 9457."""

    title: str
    status: int
    detail: str


def _described(*kinds: tuple[int, str]) -> dict[int, ResponseSpec]:
    return {
        status: ResponseSpec(
            ProblemDocument,
            generate_examples=False,
            description=description,
            media_type=PROBLEM_TYPE,
        )
        for status, description in kinds
    }


PROBLEMS = _described(
    (400, "A parameter is not of its type."),
    (401, "The server asks for a token, and this is none that it knows."),
    (404, "There is no such run, log or folder."),
    (422, "The question can't be answered as asked."),
    (429, "Too many wrong tokens from this address; wait a minute."),
    (503, "The machine can't answer now."),
)
ACTING_PROBLEMS = PROBLEMS | _described(
    (403, "The token's role does not allow it, or it comes from a page of another site."),
    (413, "The request is larger than what is taken."),
)

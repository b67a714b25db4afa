"""What the description of the API says about answers that are none."""

from __future__ import annotations

from dataclasses import dataclass

from litestar.openapi import ResponseSpec

from assay.web.refusals import PROBLEM_TYPE


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

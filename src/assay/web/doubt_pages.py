"""What doubts mean."""

from __future__ import annotations

from litestar import Response, get
from litestar.exceptions import NotFoundException

from assay.documents.explanations import document
from assay.errors import InputError
from assay.questions.explain import explain
from assay.records import SEVERITIES, SUBJECTS
from assay.web.rendering import page
from assay.web.session_pages import command_line


@get("/doubts", sync_to_thread=True, include_in_schema=False)
def doubts() -> Response[str]:
    """All doubts by subject."""
    kinds = explain().values()
    subjects = [(title, [kind for kind in kinds if kind.subject == name]) for name, title in SUBJECTS.items()]
    return page(
        "doubts.html",
        here="/doubts",
        title="Doubts and what they mean",
        subjects=subjects,
        severities=SEVERITIES,
        command=command_line("explain"),
    )


@get("/doubts/{code:str}", sync_to_thread=True, include_in_schema=False)
def doubt(code: str) -> Response[str]:
    """One doubt: its meaning, effect, remedy and error rates."""
    try:
        [kind] = explain(code).values()
    except InputError as error:
        raise NotFoundException(str(error)) from error
    [plain] = document([kind.code])["doubts"]
    return page(
        "doubt.html",
        here="/doubts",
        title=kind.code,
        kicker=f"Doubt, {kind.severity}: {SEVERITIES[kind.severity]}",
        kind=kind,
        detection=plain.get("detection"),
        command=command_line("explain", kind.code),
        actions=[("All doubts", "/doubts")],
    )

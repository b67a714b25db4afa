"""What changes something: checked, recorded before and after, and done beside the event loop."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, TypeVar

from litestar import Request
from litestar.concurrency import sync_to_thread
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException

from assay.errors import AssayError
from assay.web.access import ASKING, Audit, Identity
from assay.web.tokens import Right

FORM_WORD = "form_word"
T = TypeVar("T")
AnyRequest = Request[Any, Any, Any]


def address_of(request: AnyRequest) -> str:
    """Where it comes from, for the record; "" if that is unknown."""
    return request.client.host if request.client else ""


def entitled(right: Right) -> Identity:
    """Who asks, if they may. Raises NotAuthorizedException, or PermissionDeniedException."""
    who = ASKING.get()
    if who is None:
        raise NotAuthorizedException("Nobody may do this here: the server has no tokens.")
    if right not in who.rights:
        raise PermissionDeniedException(f"{who.name} may not do this here; it needs the right to {right}.")
    return who


async def form_of(request: AnyRequest, right: Right) -> tuple[Identity, dict[str, list[str]]]:
    """Who asks, and the fields of the form. Raises PermissionDeniedException if no page here made it."""
    who = entitled(right)
    fields: dict[str, list[str]] = {}
    for name, value in (await request.form()).multi_items():
        if isinstance(value, str):
            fields.setdefault(name, []).append(value)
    [word, *_] = fields.pop(FORM_WORD, [""])
    if who.is_page and not hmac.compare_digest(word.encode(), who.form_word().encode()):
        raise PermissionDeniedException("The form is too old: reload the page, and send it again.")
    return who, fields


async def act(
    audit: Audit, request: AnyRequest, who: Identity, what: str, action: Callable[[], T], **about: Any
) -> T:
    """Do it, with a line in the record before and one after. Raises what the action raises."""
    client = address_of(request)

    def recorded() -> T:
        audit.note(who.name, client, what, "requested", role=who.role, **about)
        try:
            done = action()
        except AssayError as error:
            audit.note(who.name, client, what, f"failed: {error}", role=who.role, **about)
            raise
        audit.note(who.name, client, what, "done", role=who.role, **about)
        return done

    return await sync_to_thread(recorded)

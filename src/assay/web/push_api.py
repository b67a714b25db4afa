"""Sessions that other machines send: announced, received in parts, completed."""

from __future__ import annotations

from typing import Any

from litestar import Response, Router, post, put
from litestar.concurrency import sync_to_thread

from assay.intake.pushed import (
    LARGEST_MANIFEST_BYTES,
    LARGEST_PART_BYTES,
    LostTrackError,
    announced_session,
    received_session,
)
from assay.questions.push import announce_push, complete_push, receive_push
from assay.web.acting import AnyRequest, act, entitled
from assay.web.audit import Audit
from assay.web.problems import ACTING_PROBLEMS
from assay.web.site import Site


@post(
    "/",
    request_max_body_size=LARGEST_MANIFEST_BYTES,
    status_code=200,
    summary="Announce a session",
    responses=ACTING_PROBLEMS,
)
async def announce(request: AnyRequest, site: Site, audit: Audit) -> dict[str, Any]:
    """The body is its manifest; the answer says where to continue."""
    who = entitled("push")
    text = await request.body()
    named = await sync_to_thread(announced_session, text)
    state = await act(audit, request, who, "push", lambda: announce_push(text, runs=site.runs), session=named)
    return {"id": state.id, "offset": state.offset, "present": state.present}


@put(
    "/{name:str}",
    request_max_body_size=LARGEST_PART_BYTES,
    status_code=200,
    summary="Send a part",
    responses=ACTING_PROBLEMS,
)
async def receive(request: AnyRequest, site: Site, name: str, at: int) -> Response[dict[str, Any]]:
    """The content from byte `at` on; 409 with the right offset if the last part did not end there."""
    entitled("push")
    part = await request.body()
    try:
        offset = await sync_to_thread(receive_push, name, at, part, runs=site.runs)
    except LostTrackError as error:
        return Response({"offset": error.offset}, status_code=409)
    return Response({"offset": offset}, status_code=200)


@post(
    "/{name:str}/complete",
    status_code=200,
    summary="Merge a session that was sent",
    responses=ACTING_PROBLEMS,
)
async def complete(request: AnyRequest, site: Site, audit: Audit, name: str) -> Response[dict[str, Any]]:
    """Everything is checked first; 409 with the offset if some is missing."""
    who = entitled("push")
    named = await sync_to_thread(received_session, name, site.runs)
    try:
        merged = await act(
            audit, request, who, "push complete", lambda: complete_push(name, runs=site.runs), session=named
        )
    except LostTrackError as error:
        return Response({"offset": error.offset}, status_code=409)
    return Response({"session": merged.session.id, "added": merged.added}, status_code=200)


ROUTES = Router("/api/v1/push", route_handlers=[announce, receive, complete])

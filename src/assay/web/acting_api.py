"""The JSON API of what acts: sessions that other machines push, the queue, and a command's answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from litestar import Response, Router, get, post, put
from litestar.concurrency import sync_to_thread
from litestar.exceptions import PermissionDeniedException
from litestar.params import Parameter

from assay.errors import BusyError, InputError
from assay.questions.push import announce_push, complete_push, receive_push
from assay.questions.queue import enqueue, queue, queued_run_document, stop_queued, suite_in
from assay.queue import QueueDirectory, QueueRequest
from assay.rundir.receiving import (
    LARGEST_MANIFEST_BYTES,
    LARGEST_PART_BYTES,
    LostTrackError,
    announced_session,
    received_session,
)
from assay.web.access import AccessRules, Audit
from assay.web.acting import AnyRequest, act, entitled
from assay.web.queue_pages import suites_of
from assay.web.refusals import ACTING_PROBLEMS, PROBLEMS
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


PUSH_ROUTES = Router("/api/v1/push", route_handlers=[announce, receive, complete])


_ShortText = Annotated[str, msgspec.Meta(max_length=300)]


class StartRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to start: the path of a suite or template below the server's directory, and its options.

    failed  repeat the failed trials of its newest session
    new     start a new session even if one is unfinished
    """

    suite: _ShortText
    systems: Annotated[list[_ShortText], msgspec.Meta(max_length=100)] = []
    failed: bool = False
    new: bool = False
    decided: bool = False
    max_repeats: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    labels: dict[_ShortText, _ShortText] = {}
    params: dict[_ShortText, str | int | float | bool] = {}
    system: _ShortText | None = None
    shape: _ShortText | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None


@get("/", summary="The queue, like `assay queue list --json`", responses=PROBLEMS)
async def listed(site: Site) -> dict[str, Any]:
    """Every request, oldest first."""
    return (await sync_to_thread(queue, runs=site.runs)).document()


@get("/{name:str}", sync_to_thread=True, summary="A run of the queue", responses=PROBLEMS)
def one(site: Site, name: str) -> dict[str, Any]:
    """Its state, and what became of it."""
    return queued_run_document(QueueDirectory(site.runs).one(name))


@post("/", status_code=201, summary="Start a suite", responses=ACTING_PROBLEMS)
async def start(
    request: AnyRequest, site: Site, rules: AccessRules, audit: Audit, data: StartRequest
) -> dict[str, Any]:
    """It is put at the end of the queue."""
    who, place = entitled("run"), suites_of(rules)

    def added() -> dict[str, Any]:
        file, is_template = suite_in(place, data.suite)
        queue_request = QueueRequest(
            str(file), who.name, time.time(), tuple(data.systems), failed=data.failed, new=data.new,
            decided=data.decided, max_repeats=data.max_repeats, template=is_template, labels=data.labels,
            params=data.params, system=data.system, shape=data.shape, limit=data.limit, seed=data.seed,
        )  # fmt: skip
        return queued_run_document(enqueue(queue_request, runs=site.runs))

    _refuse_cookies(who.is_page)
    return await act(audit, request, who, "start", added, suite=data.suite)


@post("/{name:str}/stop", status_code=200, summary="Stop a run of the queue", responses=ACTING_PROBLEMS)
async def stop(request: AnyRequest, site: Site, audit: Audit, name: str) -> dict[str, Any]:
    """A running one ends what it started; a waiting one does not start."""
    who = entitled("run")
    _refuse_cookies(who.is_page)
    return await act(
        audit, request, who, "stop",
        lambda: queued_run_document(stop_queued(name, who.name, runs=site.runs)), run=name,
    )  # fmt: skip


def _refuse_cookies(is_page: bool) -> None:
    """A page uses its form, which contains a word; here only a token in a header counts."""
    if is_page:
        raise PermissionDeniedException("Send the token in the header `Authorization`, not in a cookie.")


QUEUE_ROUTES = Router("/api/v1/queue", route_handlers=[listed, one, start, stop])


MOST_COMMANDS = 3
CLIENT = "assay-client"  # the header that a page of another site can't make a browser send


class AnsweredCommand(Protocol):
    """What a command printed, and its exit code."""

    @property
    def exit_code(self) -> int:
        """As the command line documents it."""

    @property
    def output(self) -> str:
        """Of standard output."""

    @property
    def error(self) -> str:
        """Of standard error."""


Commands = Callable[[Sequence[str], int, bool, Path], AnsweredCommand]
"""Answers words, columns, whether colored, and the runs directory; raises InputError for what it refuses."""
_SLOTS = asyncio.Semaphore(MOST_COMMANDS)


@get(
    "/api/v1/command",
    summary="What a command that reads prints, for `assay --server URL`",
    responses=ACTING_PROBLEMS,
)
async def command(
    request: AnyRequest,
    site: Site,
    commands: Any,
    word: Annotated[list[str], Parameter(min_items=1, max_items=100)],
    columns: Annotated[int, Parameter(ge=20, le=1000)] = 80,
    color: bool = False,
) -> dict[str, Any]:
    """The words as on the command line, without `assay`: output, error and exit code."""
    if CLIENT not in request.headers:
        raise PermissionDeniedException("Send the header Assay-Client, with any value.")
    if commands is None:
        raise InputError("this server answers no commands")
    if _SLOTS.locked():
        raise BusyError("this server answers other commands now; ask again")
    async with _SLOTS:
        answered: AnsweredCommand = await sync_to_thread(commands, word, columns, color, site.runs)
    return {
        "schema": "assay.command/1",
        "exit_code": answered.exit_code,
        "output": answered.output,
        "error": answered.error,
    }

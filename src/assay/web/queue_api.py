"""The queue as JSON: what waits and runs; with a token, start and stop."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from litestar import Router, get, post
from litestar.concurrency import sync_to_thread
from litestar.exceptions import PermissionDeniedException

from assay.documents import queue as documents
from assay.questions.queue import enqueue, queue, stop_queued, suite_in
from assay.queue.directory import QueueDirectory
from assay.queue.requests import QueueRequest
from assay.web.access import AccessRules
from assay.web.acting import AnyRequest, act, entitled
from assay.web.audit import Audit
from assay.web.problems import ACTING_PROBLEMS, PROBLEMS
from assay.web.queue_pages import suites_of
from assay.web.site import Site

_Text = Annotated[str, msgspec.Meta(max_length=300)]


class StartRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to start: the path of a suite or template below the server's directory, and its options.

    failed  repeat the failed trials of its newest session
    new     start a new session even if one is unfinished
    """

    suite: _Text
    systems: Annotated[list[_Text], msgspec.Meta(max_length=100)] = []
    failed: bool = False
    new: bool = False
    decided: bool = False
    max_repeats: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    labels: dict[_Text, _Text] = {}
    params: dict[_Text, str | int | float | bool] = {}
    system: _Text | None = None
    shape: _Text | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None


@get("/", summary="The queue, like `assay queue list --json`", responses=PROBLEMS)
async def listed(site: Site) -> dict[str, Any]:
    """Every request, oldest first."""
    return documents.document(await sync_to_thread(queue, runs=site.runs))


@get("/{name:str}", sync_to_thread=True, summary="A run of the queue", responses=PROBLEMS)
def one(site: Site, name: str) -> dict[str, Any]:
    """Its state, and what became of it."""
    return documents.run_document(QueueDirectory(site.runs).one(name))


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
        return documents.run_document(enqueue(queue_request, runs=site.runs))

    _refuse_cookies(who.is_page)
    return await act(audit, request, who, "start", added, suite=data.suite)


@post("/{name:str}/stop", status_code=200, summary="Stop a run of the queue", responses=ACTING_PROBLEMS)
async def stop(request: AnyRequest, site: Site, audit: Audit, name: str) -> dict[str, Any]:
    """A running one ends what it started; a waiting one does not start."""
    who = entitled("run")
    _refuse_cookies(who.is_page)
    return await act(
        audit, request, who, "stop",
        lambda: documents.run_document(stop_queued(name, who.name, runs=site.runs)), run=name,
    )  # fmt: skip


def _refuse_cookies(is_page: bool) -> None:
    """A page uses its form, which contains a word; here only a token in a header counts."""
    if is_page:
        raise PermissionDeniedException("Send the token in the header `Authorization`, not in a cookie.")


ROUTES = Router("/api/v1/queue", route_handlers=[listed, one, start, stop])

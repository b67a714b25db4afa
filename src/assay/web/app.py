"""The application: its routes, the threads of its handlers, what an error looks like, and ETags."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

from litestar import Litestar, Request, Response, get
from litestar.concurrency import set_asyncio_executor
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp, Message, Receive, Send

from assay.errors import AssayError, BusyError, InputError
from assay.queue import NAME as QUEUE
from assay.version import __version__
from assay.web import (
    acting_api,
    data_pages,
    json_api,
    list_pages,
    live,
    login_pages,
    manual_pages,
    queue_pages,
    score_pages,
    session_pages,
    stack_pages,
    study_pages,
)
from assay.web.access import Access, AccessRules, Audit, SignOuts
from assay.web.acting_api import Commands
from assay.web.guard import ACTING, READING, Guard, own_names
from assay.web.queries import list_question
from assay.web.refusals import API, PROBLEM_TYPE, problem
from assay.web.rendering import CACHED_S, page, static_file
from assay.web.site import Site

_log = logging.getLogger("assay")
_OPEN = AccessRules()
_BY_TOKEN: Any = {
    "components": Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
    "security": [{"token": []}],
}


def make_app(
    site: Site,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    rules: AccessRules = _OPEN,
    commands: Commands | None = None,
    watchers: live.Watchers | None = None,
) -> ASGIApp:
    """The application for one site.

    host      that the server listens on
    names     further host names that it is reached by, such as a proxy's
    rules     who may do what; by default, everybody may read
    commands  answers `assay --server`; None: it isn't answered
    watchers  of what runs, whose streams can be ended; None: its own
    """
    set_asyncio_executor(HandlerThreads(thread_name_prefix="handler"))
    audit = Audit(site.runs / QUEUE)
    following = watchers or live.Watchers(site)
    gate: list[Access] = []
    shared: dict[str, Callable[[], Any]] = {
        "site": lambda: site,
        "question": list_question,
        "watchers": lambda: following,
        "rules": lambda: rules,
        "audit": lambda: audit,
        "gate": lambda: gate[0],
        "commands": lambda: commands,
    }
    app = Litestar(
        route_handlers=routes(rules),
        dependencies={name: Provide(value, sync_to_thread=False) for name, value in shared.items()},
        exception_handlers={
            AssayError: _assay_error,
            HTTPException: _http_error,
            RecursionError: _too_deep,
            500: _own_error,
        },
        openapi_config=_description(rules),
        logging_config=None,
    )
    gate.append(Access(ETags(app), rules, audit, SignOuts(site.runs / QUEUE)))
    return Guard(gate[0], own_names(host, names), ACTING if rules.are_asked else READING)


def routes(rules: AccessRules) -> list[Any]:
    """What answers: always what reads, and of what signs in and acts, what the rules grant."""
    return [
        *(list_pages.home, list_pages.attention_part, list_pages.runs),
        *(session_pages.suite, session_pages.session, session_pages.run, session_pages.log),
        study_pages.comparison,
        *(manual_pages.doubts, manual_pages.doubt),
        *(study_pages.scaling_curves, study_pages.fabric_curves, study_pages.metric_history),
        *(stack_pages.stacks, stack_pages.stack),
        data_pages.data_set,
        *(score_pages.folders, score_pages.scores, score_pages.scored_set),
        *(manual_pages.manual, manual_pages.manual_page),
        *(live.live, live.events),
        *(json_api.ROUTES, acting_api.command),
        *(about_api, openapi, static, healthy),
        *((login_pages.login, login_pages.sign_in, login_pages.sign_out) if rules.are_asked else ()),
        *((acting_api.QUEUE_ROUTES, *_QUEUE_PAGES) if "run" in rules.allowed else ()),
        *((acting_api.PUSH_ROUTES,) if "push" in rules.allowed else ()),
    ]


def _description(rules: AccessRules) -> OpenAPIConfig:
    return OpenAPIConfig(
        "Assay",
        __version__,
        description="Answers of Assay as the documents that `--json` prints.",
        path="/api/v1/schema",
        render_plugins=[],
        **(_BY_TOKEN if rules.are_asked else {}),
    )


_QUEUE_PAGES = (
    queue_pages.start,
    queue_pages.add,
    queue_pages.stop,
    queue_pages.repeat,
    queue_pages.queued,
    queue_pages.queued_run,
    queue_pages.audited,
)


@get("/healthz", sync_to_thread=False, include_in_schema=False)
def healthy() -> str:
    """That the server answers, for what watches it; says nothing else."""
    return "ok"


@get("/api", sync_to_thread=True, include_in_schema=False)
def about_api(request: Request[Any, Any, Any]) -> Response[str]:
    """What the JSON API answers."""
    paths = request.app.openapi_schema.to_schema()["paths"]
    operations = [
        (f"{method.upper()} {path}" if method != "get" else path, operation["summary"])
        for path, by_method in paths.items()
        for method, operation in by_method.items()
        if method in ("get", "post", "put")
    ]
    return page("api.html", here="/api", title="JSON API", operations=operations)


@get("/api/v1/openapi.json", sync_to_thread=True, include_in_schema=False)
def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The description of the API, OpenAPI 3.1."""
    return request.app.openapi_schema.to_schema()


@get("/static/{digest:str}/{name:str}", sync_to_thread=False, include_in_schema=False)
def static(digest: str, name: str) -> Response[bytes]:  # noqa: ARG001
    """A style sheet, a script or a picture of the site; the digest is there for caches."""
    file = static_file(name)
    if file is None:
        raise NotFoundException("There is no such file.")
    content, media_type = file
    headers = {"Cache-Control": f"public, max-age={CACHED_S}, immutable"}
    return Response(content, media_type=f"{media_type}; charset=utf-8", headers=headers)


def _assay_error(request: Request[Any, Any, Any], error: AssayError) -> Response[Any]:
    status = 422 if isinstance(error, InputError) else 503
    return _problem(request, status, str(error), {"Retry-After": "5"} if isinstance(error, BusyError) else {})


def _http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    detail = error.detail
    if isinstance(error.extra, list):  # what is wrong with the parameters of the address
        detail = "\n".join(
            f"{invalid.get('key', '')}: {invalid.get('message', '')}" for invalid in error.extra
        )
    return _problem(request, error.status_code, detail, error.headers or {})


def _too_deep(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    if request.method in READING:
        return _own_error(request, error)
    return _problem(request, 400, "The body is nested too deeply.", {})


def _own_error(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    trace = "".join(traceback.format_exception(error))  # whatever formats the log would leave it out
    _log.error("%s %s\n%s", request.method, request.url.path, trace)
    return _problem(request, 500, "Assay failed to answer this; the server's log says why.", {})


def _problem(request: Request[Any, Any, Any], status: int, detail: str, headers: Any) -> Response[Any]:
    """An error as a page, or as a problem document for the API."""
    if request.url.path.startswith(API):
        from assay import redact

        plain = problem(status, redact.text(detail))
        return Response(plain, status_code=status, media_type=PROBLEM_TYPE, headers=headers)
    response = page("error.html", status=status, title=HTTPStatus(status).phrase, lines=detail.splitlines())
    response.headers.update(headers)
    return response


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


_Answer = TypeVar("_Answer")


class HandlerThreads(ThreadPoolExecutor):
    """A pool of threads in which every error of a handler becomes an answer and a line of the log.

    asyncio can't deliver StopIteration from a thread: its reader would wait for ever, and nobody would know.
    """

    def submit(self, fn: Callable[..., _Answer], /, *args: Any, **kwargs: Any) -> Future[_Answer]:
        """Call it in one of the threads; StopIteration, such as of `next`, becomes RuntimeError."""

        def delivered() -> _Answer:
            try:
                return fn(*args, **kwargs)
            except StopIteration as error:
                raise RuntimeError("StopIteration in a handler") from error

        return super().submit(delivered)

"""The application: its routes, and what an error looks like."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from litestar import Litestar, Request, Response, get
from litestar.concurrency import set_asyncio_executor
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp

from assay.errors import AssayError, BusyError, InputError
from assay.queue.directory import NAME as QUEUE
from assay.version import __version__
from assay.web import (
    command_api,
    compare_pages,
    data_pages,
    doubt_pages,
    json_api,
    json_questions,
    list_pages,
    live,
    login_pages,
    manual_pages,
    push_api,
    queue_api,
    queue_pages,
    score_pages,
    session_pages,
    stack_pages,
    study_pages,
)
from assay.web.access import Access, AccessRules
from assay.web.audit import Audit
from assay.web.command_api import Commands
from assay.web.etags import ETags
from assay.web.guard import ACTING, READING, Guard, own_names
from assay.web.handler_threads import HandlerThreads
from assay.web.queries import list_question
from assay.web.refusals import API, PROBLEM_TYPE, problem
from assay.web.rendering import CACHED_S, page, static_file
from assay.web.sign_outs import SignOuts
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
        compare_pages.comparison,
        *(doubt_pages.doubts, doubt_pages.doubt),
        *(study_pages.scaling_curves, study_pages.fabric_curves, study_pages.metric_history),
        *(stack_pages.stacks, stack_pages.stack),
        data_pages.data_set,
        *(score_pages.folders, score_pages.scores, score_pages.scored_set),
        *(manual_pages.manual, manual_pages.manual_page),
        *(live.live, live.events),
        *(json_api.ROUTES, json_questions.ROUTES, command_api.command),
        *(about_api, openapi, static, healthy),
        *((login_pages.login, login_pages.sign_in, login_pages.sign_out) if rules.are_asked else ()),
        *((queue_api.ROUTES, *_QUEUE_PAGES) if "run" in rules.allowed else ()),
        *((push_api.ROUTES,) if "push" in rules.allowed else ()),
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

"""Starting a suite or a template of jobs on labelled data, the queue, and what was done here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from litestar import Response, get, post
from litestar.exceptions import NotFoundException

from assay import redact
from assay.data.questions.submit import data_job, job_template
from assay.errors import InputError
from assay.inputs import read_whole
from assay.questions.plan import plan
from assay.questions.queue import (
    can_be_repeated,
    enqueue,
    queue,
    stop_queued,
    suite_in,
    suites_in,
)
from assay.questions.queue_work import start_worker
from assay.queue import QueueDirectory, QueueRequest, last_output
from assay.units import human_seconds
from assay.web.access import ASKING, AccessRules, Audit, Identity
from assay.web.acting import AnyRequest, act, entitled, form_of
from assay.web.queries import Name, some
from assay.web.rendering import page, with_query
from assay.web.site import Site

MOST_SHOWN = 100


@get("/start", sync_to_thread=True, include_in_schema=False)
def start(request: AnyRequest, site: Site, rules: AccessRules, suite: Name = None) -> Response[str]:
    """The suites that can be started; with one, its form and what would run."""
    who, place, name = entitled("run"), suites_of(rules), some(suite)
    frame: dict[str, Any] = {"here": "/start", "word": who.form_word()}
    if name is None:
        listed = [
            (listed_suite, is_template, with_query("/start", suite=listed_suite))
            for listed_suite, is_template in suites_in(place)
        ]
        return page("start.html", **frame, title="Start a suite", suites=listed)
    file, is_template = suite_in(place, name)
    query = {key: request.query_params.getall(key) for key in request.query_params}
    queue_request = request_of(file, who.name, time.time(), query, is_template=is_template)
    problems, shown = fields_of(queue_request, query, site.runs)
    frame |= {"title": name, "kicker": "Start", "suite": name, "problems": problems}
    return page(
        TEMPLATE if is_template else "start_suite.html", status=422 if problems else 200, **frame, **shown
    )


@post("/queue/add", include_in_schema=False, status_code=200)
async def add(request: AnyRequest, site: Site, rules: AccessRules, audit: Audit) -> Response[Any]:
    """Put a run at the end of the queue."""
    who, fields = await form_of(request, "run")
    place = suites_of(rules)
    name = fields.get("suite", [""])[0]

    def added() -> str:
        file, is_template = suite_in(place, name)
        queue_request = request_of(file, who.name, time.time(), fields, is_template=is_template)
        return enqueue(queue_request, runs=site.runs).id

    run_name = await act(audit, request, who, "start", added, suite=name)
    return _see(f"/queue/{run_name}")


@post("/queue/{name:str}/stop", include_in_schema=False, status_code=200)
async def stop(request: AnyRequest, site: Site, audit: Audit, name: str) -> Response[Any]:
    """Stop a run, or keep it from starting."""
    who, _ = await form_of(request, "run")
    await act(audit, request, who, "stop", lambda: stop_queued(name, who.name, runs=site.runs), run=name)
    return _see(f"/queue/{name}")


@post("/queue/{name:str}/repeat", include_in_schema=False, status_code=200)
async def repeat(
    request: AnyRequest, site: Site, rules: AccessRules, audit: Audit, name: str
) -> Response[Any]:
    """Repeat the failed trials of what a run of the queue made."""
    who, _ = await form_of(request, "run")
    run_name = await act(
        audit, request, who, "repeat failed",
        lambda: enqueue(repeated(site, rules, name, who), runs=site.runs).id, run=name,
    )  # fmt: skip
    return _see(f"/queue/{run_name}")


@get("/queue", sync_to_thread=True, include_in_schema=False)
def queued(site: Site) -> Response[str]:
    """What waits, runs and ended; the newest first."""
    start_worker(runs=site.runs)  # if a machine was restarted since
    run_queue = queue(runs=site.runs)
    return page(
        "queue.html",
        here="/queue",
        title="Queue",
        runs=run_queue.runs[: -MOST_SHOWN - 1 : -1],
        total=len(run_queue.runs),
        command="assay queue list",
    )


@get("/queue/{name:str}", sync_to_thread=True, include_in_schema=False)
def queued_run(site: Site, name: str) -> Response[str]:
    """One run of the queue: its state, what it printed, and what can be done."""
    directory, who = QueueDirectory(site.runs), ASKING.get()
    try:
        run = directory.one(name)
    except InputError as error:
        raise NotFoundException(str(error)) from error
    may_act = who is not None and "run" in who.rights
    return page(
        "queued_run.html",
        kicker="Queue",
        title=Path(run.request.file).parent.name + "/" + Path(run.request.file).name,
        run=run,
        lines=list(last_output(directory, name)),
        word=who.form_word() if may_act and who is not None else "",
        failed=may_act and run.outcome is not None and can_be_repeated(run, runs=site.runs),
    )


@get("/audit", sync_to_thread=True, include_in_schema=False)
def audited(audit: Audit) -> Response[str]:
    """Who did what, the newest first."""
    entitled("run")
    return page("audit.html", here="/audit", title="What was done here", lines=audit.newest())


def suites_of(rules: AccessRules) -> Path:
    """The directory of suites. Raises NotFoundException if the server has none."""
    if rules.suites is None:
        raise NotFoundException(
            "This server has no directory of suites; `assay serve --suites DIR` names one."
        )
    return rules.suites


def repeated(site: Site, rules: AccessRules, name: str, who: Identity) -> QueueRequest:
    """The request to repeat what failed of a run of the queue. Raises InputError if its suite is gone."""
    from dataclasses import replace

    before = QueueDirectory(site.runs).one(name).request
    place = suites_of(rules)
    file = Path(before.file)
    if not file.is_relative_to(place.resolve()):
        raise InputError(f"{file.name} is outside of the suites that this server starts")
    suite_in(place, str(file.relative_to(place.resolve())))
    return replace(before, by=who.name, created_at=time.time(), failed=True, new=False)


def _see(where: str) -> Response[Any]:
    return Response("", status_code=303, headers={"Location": where})


TEMPLATE = "start_template.html"
Fields = Mapping[str, Sequence[str]]


def request_of(file: Path, by: str, moment: float, fields: Fields, *, is_template: bool) -> QueueRequest:
    """What the fields ask for. Raises InputError for what is no number."""
    failed, new = bool(_first_value(fields, "failed")), bool(_first_value(fields, "new"))
    if not is_template:
        systems = tuple(system for system in fields.get("system", ()) if system)
        decided = bool(_first_value(fields, "decided"))
        most = _whole_number(fields, "max_repeats") if decided else None
        return QueueRequest(
            str(file), by, moment, systems, failed=failed, new=new, decided=decided, max_repeats=most
        )
    labels = {n.removeprefix("label."): v[0].strip() for n, v in fields.items() if n.startswith("label.")}
    params = {n.removeprefix("param."): v[0].strip() for n, v in fields.items() if n.startswith("param.")}
    return QueueRequest(
        str(file), by, moment, failed=failed, new=new, template=True,
        labels={name: value for name, value in labels.items() if value},
        params={name: _parse_scalar(value) for name, value in params.items() if value},
        system=_first_value(fields, "system"), shape=_first_value(fields, "shape"),
        limit=_whole_number(fields, "limit"), seed=_whole_number(fields, "seed"),
    )  # fmt: skip


def fields_of(request: QueueRequest, fields: Fields, runs: Path) -> tuple[list[str], dict[str, Any]]:
    """What is wrong, and the values of the form and of what would run."""
    problems, values = _template_fields(request, runs) if request.template else _suite_fields(request, runs)
    return problems, {"chosen": {name: list(chosen) for name, chosen in fields.items()}, **values}


def _suite_fields(request: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    text = redact.redacted_yaml(read_whole(Path(request.file)).decode(errors="replace"))
    try:
        whole = plan(request.file, runs=runs)
        part = plan(request.file, system=request.systems, runs=runs) if request.systems else whole
    except InputError as error:
        return str(error).splitlines(), {"text": text, "systems": (), "trials": 0, "takes": ""}
    times = [seconds for _, seconds in part.durations_of_trials()]
    known = [seconds for seconds in times if seconds is not None]
    takes = human_seconds(sum(known)) if known and len(known) == len(times) else ""
    return [], {
        "text": text, "systems": whole.plan.systems, "trials": len(part.plan.trials), "takes": takes,
    }  # fmt: skip


def _template_fields(request: QueueRequest, runs: Path) -> tuple[list[str], dict[str, Any]]:
    try:
        template = job_template(request.file)
    except InputError as error:
        return str(error).splitlines(), {"filling": None, "job": None}
    if not (request.labels or request.params or request.system):  # nothing was chosen yet
        return [], {"filling": template, "job": None}
    try:
        job = data_job(
            request.file, labels=request.labels, params=request.params, system=request.system,
            shape=request.shape, limit=request.limit, seed=request.seed, runs=runs,
        )  # fmt: skip
    except InputError as error:
        return str(error).splitlines(), {"filling": template, "job": None}
    text = redact.redacted_yaml(job.filled.suite.text)
    return [], {"filling": template, "job": job.document(), "text": text}


def _first_value(fields: Fields, name: str) -> str | None:
    return next((value.strip() for value in fields.get(name, ()) if value.strip()), None)


def _whole_number(fields: Fields, name: str) -> int | None:
    text = _first_value(fields, name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise InputError(f"{name}: found {text!r}; expected a whole number")
    return int(text)


def _parse_scalar(text: str) -> str | int | float | bool:
    """A parameter's value as YAML would read a plain one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

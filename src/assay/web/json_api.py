"""The JSON API: the documents that `--json` prints, by address.

The address of a question is made from its fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from litestar import MediaType, Request, Response, Router, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import Parameter

from assay import redact
from assay.data.questions.classes import DataClasses
from assay.errors import InputError, Problem
from assay.monitor.questions.running import running_trials
from assay.questions.attention import attention, attention_document
from assay.questions.browsing import RowPage
from assay.questions.compare import Compare
from assay.questions.explain import Explain
from assay.questions.history import History
from assay.questions.question import Question, alternatives, read_value, reads_of
from assay.questions.report import report
from assay.questions.run_logs import LONGEST_WORDS, read_log, run_logs, search_log
from assay.questions.scale import Scale
from assay.questions.score import score
from assay.questions.show import show
from assay.questions.sweep import judged_sweep_document
from assay.stacks.known import list_stacks, show_stack
from assay.view.contents import Contents
from assay.web.queries import Attempt, Line, ListQuestion, Name, Names, Required, RequiredNames, some
from assay.web.refusals import PROBLEMS
from assay.web.site import Site

Words = Annotated[str, Parameter(min_length=1, max_length=LONGEST_WORDS)]
Document = Response[dict[str, Any]]


def json_answer(document: Any) -> Document:
    """A document without secrets."""
    text = redact.text(json.dumps(document, ensure_ascii=True, allow_nan=False))
    encoded = cast("dict[str, Any]", text)  # a text is sent as it is; the description shows what it holds
    return Response(encoded, media_type=MediaType.JSON, headers={"Cache-Control": "no-cache"})


def json_handler(path: str, summary: str) -> get:
    """A handler of the API: what it answers, and how it says that it can't."""
    return get(path, sync_to_thread=True, summary=summary, responses=PROBLEMS)


def question_handler(path: str, summary: str, question: type[Question]) -> HTTPRouteHandler:
    """A handler that answers a question from the site's runs, as the document of `--json`."""
    hints = get_type_hints(question, include_extras=True)
    fields = [field for field in dataclasses.fields(question) if not field.metadata.get("local")]  # type: ignore[arg-type]
    types = {field.name: _parameter_type(field, hints[field.name]) for field in fields}
    reads = {name: hint.read if (hint := reads_of(hints[name])) else str for name in types}

    def handler(site: Site, **arguments: Any) -> Document:
        values = {name: _question_value(name, arguments[name], read) for name, read in reads.items()}
        options = {name: value for name, value in values.items() if value is not None}
        runs = {"runs": site.runs} if "runs" in hints else {}
        return json_answer(question(**options, **runs).answer().document())

    parameters = [inspect.Parameter("site", inspect.Parameter.KEYWORD_ONLY, annotation=Site)]
    for field in fields:
        needed = types[field.name] in (Required, RequiredNames)
        default = inspect.Parameter.empty if needed else _default_of(types[field.name])
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, annotation=types[field.name], default=default
            )
        )
    handler.__name__ = question.__name__.lower()
    handler.__doc__ = inspect.cleandoc(question.__doc__ or "").split("\n\n")[0]
    handler.__signature__ = inspect.Signature(parameters, return_annotation=Document)  # type: ignore[attr-defined]
    handler.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": Document}
    return get(path, sync_to_thread=True, summary=summary, responses=PROBLEMS)(handler)


def _parameter_type(field: dataclasses.Field[Any], hint: Any) -> Any:
    if hint is bool:
        return bool
    is_needed = field.metadata.get("argument") and field.default is dataclasses.MISSING
    choices = [
        choice for kind in alternatives(hint) if get_origin(kind) is Literal for choice in get_args(kind)
    ]
    if choices:
        return Annotated[Literal[(*choices, "")] | None, Parameter()]
    if "tuple[" in str(hint):
        return RequiredNames if is_needed else Names
    return Required if is_needed else Name


def _default_of(kind: Any) -> Any:
    return False if kind is bool else None


def _question_value(name: str, value: Any, read: Callable[[Any], Any]) -> Any:
    """A value as the question has it: a field of a form that was left empty is none at all."""
    if isinstance(value, list):
        return tuple(read_value(name, entry, read) for entry in value if some(entry))
    return read_value(name, some(value), read) if isinstance(value, str) else value


def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Raises InputError for parameters that the path does not have: a typo must not be a default.

    For a router whose paths are whole addresses.
    """
    operation = (request.app.openapi_schema.paths or {})[request.url.path.rstrip("/")].get
    known = {
        parameter.name
        for parameter in (operation.parameters if operation else None) or ()
        if hasattr(parameter, "name")
    }
    unknown = dict.fromkeys(name for name in request.query_params if name not in known)
    if unknown:
        message = f"there is no such parameter; choose from {', '.join(sorted(known)) or 'none'}"
        raise InputError([Problem(name, message) for name in unknown])


@json_handler("/runs", "Sets or runs, like `assay show --json`")
def list_runs(site: Site, question: ListQuestion) -> Document:
    """One page; `next` is the address of the following one, null at the end."""
    if site.is_empty:
        rows = RowPage((), total=0, number=1, pages=1)
    else:
        site.refresh()
        rows = question.rows(site.runs)
    return json_answer(
        {
            "schema": "assay.list/1",
            "runs" if question.trials else "sets": [dict(row) for row in rows.rows],
            "total": rows.total,
            "page": rows.number,
            "pages": rows.pages,
            "next": question.page_address("/api/v1/runs", rows.number + 1)
            if rows.number < rows.pages
            else None,
        }
    )


@json_handler("/show", "A session, a set or a trial, like `assay show RUN --json`")
def show_run(site: Site, run: Required) -> Document:
    """Numbers with their spread, series, doubts, failed runs and the machines."""
    return json_answer(show(run, runs=site.runs).document())


compare_runs = question_handler("/compare", "B compared with A, like `assay compare --json`", Compare)


@json_handler("/report", "Answers of a report, like `assay report --json`")
def report_runs(
    site: Site,
    run: RequiredNames,
    margin: Name = None,
    baseline: Name = None,
) -> Document:
    """Verdicts as sentences, with their doubts."""
    runs_report = report(
        run, margin=some(margin), baseline=some(baseline), with_identity=True, runs=site.runs
    )
    return json_answer({"schema": "assay.report/1", **runs_report.plain()})


@json_handler("/sweep", "What is slow in a sweep, with the keys of `assay sweep --json`")
def swept_session(site: Site, run: Required) -> Document:
    """Nodes, pairs and rings of a session of a sweep, judged as on its page."""
    session_report = report(run, with_identity=True, runs=site.runs)
    if isinstance(session_report.about, Contents):
        raise InputError(f"{run}: not a sweep; ask for /api/v1/report")
    return json_answer(judged_sweep_document(run, session_report.about.verdicts))


@json_handler("/top", "What runs now, like `assay watch --once --json`")
def running_now(site: Site, session: Name = None) -> Document:
    """Every running trial, what is off first."""
    return json_answer(running_trials(some(session) or "", runs=site.runs).document())


@json_handler("/attention", "What needs a look")
def needs_attention(site: Site) -> Document:
    """What is off in the newest session of each suite."""
    return json_answer(attention_document(attention(runs=site.runs)))


explain_doubts = question_handler("/doubts", "What doubts mean, like `assay explain --json`", Explain)


@json_handler("/logs", "The logs of a run")
def list_logs(site: Site, run: Required, attempt: Attempt = None) -> Document:
    """Their names and sizes."""
    return json_answer(run_logs(run, attempt=attempt, runs=site.runs).document())


@json_handler("/log", "Lines of a log")
def read_lines(site: Site, run: Required, log: Required, line: Line = 1, attempt: Attempt = None) -> Document:
    """At most 500 lines from this one on."""
    return json_answer(read_log(run, log, first=line, attempt=attempt, runs=site.runs).document())


@json_handler("/log/search", "Lines of a log that contain words")
def search_lines(
    site: Site, run: Required, log: Required, q: Words, line: Line = 1, attempt: Attempt = None
) -> Document:
    """At most 100 lines from this one on, whatever the case of the words."""
    matches = search_log(run, log, q, first=line, attempt=attempt, runs=site.runs)
    return json_answer(matches.document())


metric_history = question_handler("/history", "A metric over sessions, like `assay history --json`", History)


scaling_curves = question_handler("/scale", "What more workers gain, like `assay scale --json`", Scale)


@json_handler("/stacks", "Observed software stacks, like `assay stack show --json`")
def observed_stacks(site: Site, package: Name = None, workload: Name = None) -> Document:
    """The most recently observed first."""
    return json_answer(list_stacks(package=some(package), workload=some(workload), runs=site.runs).document())


@json_handler("/stack", "One software stack, like `assay stack show STACK --json`")
def observed_stack(site: Site, stack: Required) -> Document:
    """By the beginning of its digest, or by runs that have it."""
    return json_answer(show_stack(stack, runs=site.runs).document())


@json_handler("/data/classes", "Classes of a data set, like `assay data classes --json`")
def data_classes(site: Site, where: Name = None) -> Document:
    """How much of each class the frames have that satisfy a condition."""
    return json_answer(DataClasses(some(where) or "", catalog=site.catalog).answer().document())


@json_handler(
    "/scores",
    "MLPerf logs by the rules of their round, like `assay score --json`",
)
def round_scores(site: Site, folder: Required) -> Document:
    """Of one of the folders that the server was started with."""
    path = site.folder(folder)
    if path is None:
        raise NotFoundException(f"There is no folder {folder} of MLPerf logs here.")
    return json_answer(score(path).document())


ROUTES = Router(
    "/api/v1",
    before_request=refuse_unknown,
    route_handlers=[
        list_runs, show_run, compare_runs, report_runs, swept_session, running_now, needs_attention,
        explain_doubts, list_logs, read_lines, search_lines, metric_history, scaling_curves, observed_stacks,
        observed_stack, data_classes, round_scores,
    ],
)  # fmt: skip

"""The JSON API: the documents that `--json` prints, by address."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Router
from litestar.params import Parameter

from assay.documents import attention as attention_documents
from assay.documents import details, explanations, running, sweeps
from assay.documents import run_logs as log_documents
from assay.errors import InputError, Problem
from assay.questions.attention import attention
from assay.questions.browsing import RowPage
from assay.questions.compare import Compare
from assay.questions.explain import explain
from assay.questions.report import report
from assay.questions.run_logs import LONGEST_WORDS, read_log, run_logs, search_log
from assay.questions.show import show
from assay.questions.top import top
from assay.report.contents.contents import Contents
from assay.web.queries import Attempt, Line, ListQuestion, Name, Required, RequiredNames, some
from assay.web.question_api import Document, answer, answering, asked
from assay.web.site import Site

Words = Annotated[str, Parameter(min_length=1, max_length=LONGEST_WORDS)]


@answering("/runs", "Sets or runs, like `assay list --json`")
def list_runs(site: Site, question: ListQuestion) -> Document:
    """One page; `next` is the address of the following one, null at the end."""
    if site.is_empty:
        rows = RowPage((), total=0, number=1, pages=1)
    else:
        site.refresh()
        rows = question.rows(site.runs)
    return answer(
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


@answering("/show", "A session, a set or a trial, like `assay show --json`")
def show_run(site: Site, run: Required) -> Document:
    """Its runs, figures with intervals, doubts and provenance."""
    return answer(details.document(show(run, runs=site.runs)))


compare_runs = asked("/compare", "B compared with A, like `assay compare --json`", Compare)


@answering("/report", "Answers of a report, like `assay report --json`")
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
    return answer({"schema": "assay.report/1", **runs_report.plain()})


@answering("/sweep", "What is slow in a sweep, with the keys of `assay sweep --json`")
def swept_session(site: Site, run: Required) -> Document:
    """Nodes, pairs and rings of a session of a sweep, judged as on its page."""
    session_report = report(run, with_identity=True, runs=site.runs)
    if isinstance(session_report.about, Contents):
        raise InputError(f"{run}: not a sweep; ask for /api/v1/report")
    return answer(sweeps.judged_document(run, session_report.about.verdicts))


@answering("/top", "What runs now, like `assay top --json`")
def running_now(site: Site, session: Name = None) -> Document:
    """Every running trial, what is off first."""
    return answer(running.answer(top(some(session) or "", runs=site.runs)))


@answering("/attention", "What needs a look")
def needs_attention(site: Site) -> Document:
    """What is off in the newest session of each suite."""
    return answer(attention_documents.document(attention(runs=site.runs)))


@answering("/doubts", "What doubts mean, like `assay explain --json`")
def explain_doubts(code: Name = None) -> Document:
    """One kind of doubt, or all."""
    return answer(explanations.document(explain(some(code))))


@answering("/logs", "The logs of a run")
def list_logs(site: Site, run: Required, attempt: Attempt = None) -> Document:
    """Their names and sizes."""
    return answer(log_documents.logs_document(run_logs(run, attempt=attempt, runs=site.runs)))


@answering("/log", "Lines of a log")
def read_lines(site: Site, run: Required, log: Required, line: Line = 1, attempt: Attempt = None) -> Document:
    """At most 500 lines from this one on."""
    return answer(
        log_documents.page_document(read_log(run, log, first=line, attempt=attempt, runs=site.runs))
    )


@answering("/log/search", "Lines of a log that contain words")
def search_lines(
    site: Site, run: Required, log: Required, q: Words, line: Line = 1, attempt: Attempt = None
) -> Document:
    """At most 100 lines from this one on, whatever the case of the words."""
    matches = search_log(run, log, q, first=line, attempt=attempt, runs=site.runs)
    return answer(log_documents.matches_document(matches))


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


ROUTES = Router(
    "/api/v1",
    before_request=refuse_unknown,
    route_handlers=[
        list_runs, show_run, compare_runs, report_runs, swept_session, running_now, needs_attention,
        explain_doubts, list_logs, read_lines, search_lines,
    ],
)  # fmt: skip

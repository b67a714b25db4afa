"""The compare builder: its address is the question, so the same address gives the same verdict."""

from __future__ import annotations

from typing import Any

from litestar import Response, get

from assay.errors import InputError
from assay.questions.browsing import browse
from assay.questions.compare import Compare, Comparisons, Rankings
from assay.report.contents.contents import Contents, failures
from assay.report.page import page as report_page
from assay.report.sentences import sentences
from assay.web.queries import Name, some
from assay.web.rendering import page, with_query
from assay.web.session_pages import command_line, report_values
from assay.web.site import Site

MOST_OFFERED = 200  # references that the form offers, the newest


@get("/compare", sync_to_thread=True, include_in_schema=False)
def comparison(
    site: Site,
    a: Name = None,
    b: Name = None,
    margin: Name = None,
    metric: Name = None,
    baseline: Name = None,
    layouts: bool = False,
) -> Response[str]:
    """The form, and below it the answer."""
    site.refresh()
    criteria = {
        "a": some(a),
        "b": some(b),
        "margin": some(margin),
        "metric": some(metric),
        "baseline": some(baseline),
        "layouts": "true" if layouts else None,
    }
    frame: dict[str, Any] = {
        "here": "/compare",
        "title": "Compare",
        "form": "compare_form.html",
        "asked": criteria,
        "offered": [row["reference"] for row in browse(limit=MOST_OFFERED, runs=site.runs).rows],
    }
    first = criteria["a"]
    if first is None:
        return page("compare.html", **frame)
    try:
        question = Compare(
            first,
            some(b),
            margin=some(margin),
            metric=some(metric),
            baseline=some(baseline),
            layouts=layouts,
            runs=site.runs,
        )
        contents = _contents(question)
    except InputError as error:
        return page("compare.html", status=422, **frame, problems=str(error).splitlines())
    second = [criteria["b"]] if criteria["b"] else []
    options = {f"--{name}": criteria[name] for name in ("margin", "metric", "baseline")}
    values = report_values(contents)
    return page(
        report_page.TEMPLATE,
        **values
        | frame
        | {
            "kicker": "",
            "title": " and ".join([first, *second]),
            "tables": [table for table in values["tables"] if table.bodies],
            "command": command_line("compare", first, *second, *["--layouts"] * layouts, **options),
            "actions": [("As JSON", with_query("/api/v1/compare", **criteria))],
        },
    )


def _contents(question: Compare) -> Contents:
    """The answer as a report holds it: nothing is judged again."""
    answer = question.answer()
    if isinstance(answer, Rankings):
        return _report(str(question.a), Comparisons((), (), (), 0.0), rankings=answer.rankings)
    return _report(str(question.a), answer)


def _report(title: str, compared: Comparisons, **more: Any) -> Contents:
    sides = {name: tuple(results) for name, results in compared.sides.items()}
    return Contents(
        title=title,
        sides=sides,
        margin=compared.margin,
        primary=compared.leading,
        comparisons=compared.comparisons,
        questions=sentences.questions(compared.primary),
        requirements=(),
        curves=(),
        summaries=(),
        failures=tuple(failure for name, results in sides.items() for failure in failures(name, results)),
        open=compared.open,
        uncompared=tuple((f"{point.benchmark} {point.metric}", why) for point, why in compared.not_compared),
        splits=compared.time_to_train,
        **more,
    )

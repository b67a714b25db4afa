"""Answers on many runs: B compared with A, what more workers gain, a fabric's speed, and histories.

A page's address is the question, so the same address gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from litestar import Response, get

from assay.errors import InputError
from assay.questions.browsing import browse, metric_names
from assay.questions.compare import Compare, Comparisons, Rankings
from assay.questions.history import History
from assay.questions.report import report
from assay.questions.scale import Scale
from assay.store import Filter
from assay.view.blocks import Block, Heading, Paragraph
from assay.view.charts.exchange import exchanges
from assay.view.contents import Contents, failures
from assay.view.report import doubts_section, footer, report_blocks
from assay.view.sentences import exchange as exchange_words
from assay.view.sentences import sentences
from assay.web.queries import FormField, Group, Name, QuestionForm, References, listed, some
from assay.web.rendering import blocks_page, page, with_query
from assay.web.session_pages import command_line, with_run_links
from assay.web.site import Site

MOST_OFFERED = 200  # references that a form offers, the newest
MOST_EXAMPLES = 12


@get("/scaling", sync_to_thread=True, include_in_schema=False)
def scaling_curves(
    site: Site, run: References = None, metric: Name = None, group: Group = None
) -> Response[str]:
    """Speed-up over sizes, with what limits it, like `assay scale`."""
    runs, only, by = listed(run), some(metric), group or None
    form = QuestionForm(
        "/scaling",
        "Scaling",
        "Show",
        "Name runs of at least two sizes, or several sets of one machine, separated by spaces.",
        [
            FormField("run", "Runs", " ".join(runs), offered=_offered(site), required=True, wide=True),
            FormField("metric", "Metric", only, "primary"),
            FormField("group", "Group systems by", by, "its own", ("name", "accelerator", "none")),
        ],
        _newest(site, "/scaling"),
        "/api/v1/scale",
    )
    return form.ask(Scale(runs, metric=only, group=by, runs=site.runs) if runs else None)


@get("/fabric", sync_to_thread=True, include_in_schema=False)
def fabric_curves(site: Site, run: References = None) -> Response[str]:
    """Time and bus bandwidth of exchanges over message sizes, as the report has them."""
    runs = listed(run)
    form = QuestionForm(
        "/fabric",
        "Fabric",
        "Show",
        "Name runs of `allreduce` or another exchange, separated by spaces: their curves are drawn together.",
        [FormField("run", "Runs", " ".join(runs), offered=_offered(site), required=True, wide=True)],
        _newest(site, "/fabric", Filter(words="reduce")),
    )

    def answer() -> Iterator[Block]:
        about = report(list(runs), with_identity=True, runs=site.runs).about
        if not isinstance(about, Contents) or not about.exchanges:
            raise InputError(
                f"{' '.join(runs)}: no exchange was measured at several message sizes; `assay init` writes a "
                "suite with one, and `allreduce` measures it"
            )
        yield Heading("Answer", "answer")
        for curve in about.exchanges:
            yield Paragraph(f"{exchange_words.heading(curve)}: {exchange_words.describe_curve(curve)}")
        yield from doubts_section(about.doubts)
        yield Heading("Charts", "charts")
        yield from exchanges(about.exchanges)
        yield Heading("Numbers", "numbers")
        yield from exchange_words.tables(about.exchanges)
        yield from exchange_words.transport_tables(about.sides)

    return form.answer(answer if runs else None, command=command_line("report", *runs))


@get("/history", sync_to_thread=True, include_in_schema=False)
def metric_history(
    site: Site,
    metric: Name = None,
    suite: Name = None,
    benchmark: Name = None,
    system: Name = None,
    since: Name = None,
) -> Response[str]:
    """A metric over sessions, where it stepped and what changed there, like `assay history`."""
    chosen_metric = some(metric)
    chosen: dict[str, Any] = {"suite": some(suite), "benchmark": some(benchmark), "system": some(system)}
    chosen["since"] = some(since)
    names = metric_names(runs=site.runs)
    form = QuestionForm(
        "/history",
        "History",
        "Show",
        "Choose a metric: each session counts once, and steps are found from six sessions on.",
        [
            FormField("metric", "Metric", chosen_metric, offered=names, required=True),
            *(
                FormField(name, name.capitalize(), value, "90d" if name == "since" else "all")
                for name, value in chosen.items()
            ),
        ],
        [(name, with_query("/history", metric=name)) for name in names],
        "/api/v1/history",
    )
    return form.ask(History(chosen_metric, **chosen, runs=site.runs) if chosen_metric else None)


def _offered(site: Site) -> list[str]:
    return [row["reference"] for row in browse(limit=MOST_OFFERED, runs=site.runs).rows]


def _newest(site: Site, path: str, only: Filter | None = None) -> list[tuple[str, str]]:
    """The newest sessions with an address that asks about each."""
    rows = browse(only, limit=MOST_OFFERED, runs=site.runs).rows
    sessions = dict.fromkeys(f"{row['suite']}/{row['session']}" for row in rows)
    return [(name, with_query(path, run=name)) for name in list(sessions)[:MOST_EXAMPLES]]


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
        contents = _comparison_contents(question)
    except InputError as error:
        return page("compare.html", status=422, **frame, problems=str(error).splitlines())
    second = [criteria["b"]] if criteria["b"] else []
    options = {f"--{name}": criteria[name] for name in ("margin", "metric", "baseline")}
    return blocks_page(
        report_blocks(with_run_links(contents)),
        **frame
        | {
            "title": " and ".join([first, *second]),
            "command": command_line("compare", first, *second, *["--layouts"] * layouts, **options),
            "actions": [("As JSON", with_query("/api/v1/compare", **criteria))],
            "footer": footer(contents),
        },
    )


def _comparison_contents(question: Compare) -> Contents:
    """The answer as a report holds it: nothing is judged again."""
    answer = question.answer()
    if isinstance(answer, Rankings):
        return _comparison_report(str(question.a), Comparisons((), (), (), 0.0), rankings=answer.rankings)
    return _comparison_report(str(question.a), answer)


def _comparison_report(title: str, compared: Comparisons, **more: Any) -> Contents:
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

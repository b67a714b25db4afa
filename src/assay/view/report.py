"""A report on runs and their sides as blocks: the answers, doubts, charts, numbers, facts and recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assay.analyse.scaling.study import Study
from assay.records import SEVERITIES, Doubt, Requirement
from assay.units import counted
from assay.version import __version__
from assay.view import costs, figures, markdown, runs, verdicts
from assay.view.blocks import (
    Block,
    Chart,
    Claim,
    Claims,
    Doubts,
    Facts,
    Fold,
    Heading,
    Lead,
    Link,
    NamedText,
    Paragraph,
    Table,
    TableBody,
    TableRow,
    Verbatim,
    facts_of,
)
from assay.view.charts import CHARTS, charts
from assay.view.charts.run_time import run_time_tables
from assay.view.contents import Contents, Failure, Recipe, ReportedFact
from assay.view.document import document
from assay.view.figures import gathered
from assay.view.sentences import exchange, ranking, scaling, sentences, split
from assay.view.sentences import why as why_words
from assay.view.sentences.recommendation import about, gravest, lead, recommendation, together

_BELOW_ITS_ANSWERS = "forest"  # the chart that is next to the comparisons
_METHOD = (
    "Ratios are of geometric means; intervals are 95 % t intervals on the logarithms, with the run as the "
    "unit of replication; a verdict follows from its interval and the margin."
)


def report_blocks(contents: Contents) -> Iterator[Block]:
    """What to do and what was found; then a section for each part that these contents fill."""
    yield verdicts.lead(recommendation(contents))
    yield Lead(lead(contents))
    if cost := costs.sentence(contents):
        yield Paragraph(cost, "dim")
    yield facts_of(about(contents))
    drawn = charts(contents)
    yield Heading("Verdicts", "verdicts")
    yield from _verdicts(contents, [chart for chart in drawn if chart.kind == _BELOW_ITS_ANSWERS])
    yield from doubts_section(contents.doubts)
    yield from _charts([chart for chart in drawn if chart.kind != _BELOW_ITS_ANSWERS])
    if every := [table for table in tables(contents) if table.bodies]:
        yield Heading("Numbers", "numbers")
        yield from every
    yield from failures_section(contents.failures, contents.logs)
    if contents.facts:
        yield from (Heading("Provenance", "provenance"), *_provenance(contents))
    if contents.logs:
        yield from (Heading("Logs", "logs"), _logs(contents))
    yield from recipes_section(contents.recipes)


def html_page(contents: Contents) -> str:
    """The complete page, ready to send to someone."""
    blocks, end = report_blocks(contents), footer(contents)
    return document(contents.title, "Assay report", blocks, footer=end, hide=contents.hide)


def markdown_text(contents: Contents) -> str:
    """The same as Markdown, as short as a pull-request comment."""
    return markdown.text(contents.title, report_blocks(contents), footer=footer(contents), hide=contents.hide)


def footer(contents: Contents) -> str:
    """Who made the report, what it leaves out, and how its figures are meant."""
    maker = f"Made by Assay {__version__} from {counted(contents.runs, 'run')}."
    left_out = f"Left out: {contents.left_out}; `assay report --with-identity` keeps them."
    return " ".join((maker, *[left_out] * bool(contents.left_out), _METHOD))


def _verdicts(contents: Contents, forest: Sequence[Chart]) -> Iterator[Block]:
    for ranked in contents.rankings:
        yield from (Paragraph(ranking.headline(ranked), "strong"), ranking.table(ranked))
    if contents.rankings:
        yield Paragraph(ranking.how_to_read(contents.rankings), "dim")
    elif not (contents.questions or contents.open or contents.splits):
        yield Paragraph(
            "There is only one side, so nothing is compared. Add a second system or set to compare with."
        )
    for number, (title, claims) in enumerate(reported_claims(contents)):
        yield from (Heading(title), claims)
        if number == 0:
            yield Paragraph(together(contents), "dim")
            yield from forest
    if contents.uncompared:
        rows = tuple(NamedText(place, why) for place, why in contents.uncompared)
        yield Fold((), (Facts(rows, short=False),), f"Not compared: {len(rows)}")
    yield from without_result(len(contents.failures), contents.unfinished, contents.runs)


def reported_claims(contents: Contents) -> list[tuple[str, Claims]]:
    """All answers: what was compared, what was required, how it scales; each kind with its title."""
    kinds = {
        "Is it as fast?": [*_compared(contents)],
        "What makes the difference in time to train?": [*_split(contents)],
        "Does it meet the requirements?": [*_required(contents)],
        "How far does it scale?": [*_scaled(contents)],
    }
    return [(title, _with_common_doubts(group)) for title, group in kinds.items() if group]


def _with_common_doubts(group: Sequence[Claim]) -> Claims:
    common = [code for code in group[0].doubts if all(code in claim.doubts for claim in group)]
    own = (
        replace(claim, doubts=tuple(code for code in claim.doubts if code not in common)) for claim in group
    )
    return Claims(tuple(own), tuple(common))


def _compared(contents: Contents) -> Iterator[Claim]:
    for q in contents.questions:
        doubts = [doubt for c in q.comparisons for doubt in c.doubts]
        yield Claim(
            q.verdict,
            q.verdict,
            sentences.SYMBOLS[q.verdict],
            sentences.answer(q),
            sentences.evidence(q),
            _codes(doubts),
            why_words.sentences(q, contents.sides, contents.margin),
            gravest(doubts),
        )
    for left in contents.open:
        evidence = f"{left.metric} is its primary metric"
        yield Claim("undecided", "undecided", sentences.SYMBOLS["undecided"], f"{left}.", evidence)


def _split(contents: Contents) -> Iterator[Claim]:
    for d in contents.splits:
        symbol = sentences.SYMBOLS[d.verdict]
        yield Claim(d.verdict, d.verdict, symbol, split.sentence(d), split.evidence(d))


def _required(contents: Contents) -> Iterator[Claim]:
    for group in gathered(
        contents.requirements, lambda r: (r.point.benchmark, r.point.metric, r.expectation.written)
    ):
        reached = {r.verdict for r in group}
        verdict = next(v for v in ("fails", "undecided", "holds") if v in reached)
        doubts = [doubt for r in group for doubt in r.doubts]
        symbol, sentence = sentences.REQUIREMENT_SYMBOLS[verdict], sentences.requirement(group)
        codes, severity = _codes(doubts), gravest(doubts)
        yield Claim(verdict, verdict, symbol, sentence, _measured(group), codes, severity=severity)


def _measured(group: Sequence[Requirement]) -> str:
    known = [r.estimate for r in group if r.estimate is not None]
    if not known:
        return "Nothing was measured"
    unit, texts = figures.column([min(e.value for e in known), max(e.value for e in known)], known[0].unit)
    span = texts[0] if len(known) == 1 else f"{texts[0]} to {texts[1]}"
    evidence = f"Measured {span} {unit}; each by its one-sided 95 % bound"
    return "; ".join(filter(None, (evidence, sentences.looked_at(known))))


def _scaled(contents: Contents) -> Iterator[Claim]:
    points = [(curve, point) for curve in contents.curves for point in curve.points[1:]]
    for group in gathered(points, lambda pair: (pair[0].benchmark, pair[0].metric, pair[1].shape)):
        doubts = [doubt for _, point in group for doubt in point.doubts]
        share, sentence = sentences.efficiency(group), sentences.scaled(group)
        evidence, codes = sentences.scaling_evidence(group), _codes(doubts)
        yield Claim("scaling", share, "", sentence, evidence, codes, severity=gravest(doubts))


def _codes(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.code for doubt in doubts))


def without_result(failed: int, unfinished: int, whole: int) -> Iterator[Paragraph]:
    """How many runs count in no result: those that failed, and those that have not ended."""
    if failed:
        counts = "counts" if failed == 1 else "count"
        yield Paragraph(f"{failed} of {counted(whole, 'run')} failed and {counts} in no result.", "fails")
    if unfinished:
        are, count = ("is", "counts") if unfinished == 1 else ("are", "count")
        yield Paragraph(
            f"{unfinished} of {counted(whole, 'run')} {are} unfinished and {count} in no result yet.", "dim"
        )


def doubts_section(doubts: Sequence[tuple[Doubt, tuple[str, ...]]]) -> Iterator[Block]:
    """The doubts with the places that they concern, and what their severities mean."""
    if not doubts:
        return
    yield from (Heading("Doubts", "doubts"), Doubts(tuple(doubts), 0))
    meanings = "".join(f"{severity}: {meaning}. " for severity, meaning in SEVERITIES.items())
    yield Paragraph(
        f"{meanings}`assay explain CODE` explains how a doubt may affect a result, and how often it is a "
        "false alarm.",
        "dim",
    )


def _charts(drawn: Sequence[Chart]) -> Iterator[Block]:
    """Charts of one kind under their title."""
    if drawn:
        yield Heading("Charts", "charts")
    for group in gathered(drawn, lambda chart: chart.kind):
        yield Heading(CHARTS[group[0].kind].title)
        yield from group


def tables(contents: Contents) -> Iterator[Table]:
    """Every table that these contents fill, in reading order."""
    for pair in gathered(contents.comparisons, lambda c: (c.a, c.b)):
        yield verdicts.verdict_table(pair, on_page=True)
    if contents.requirements:
        yield verdicts.requirements_table(contents.requirements)
    if contents.curves:
        yield verdicts.scaling_table(contents.curves)
    yield from runs.trial_times(contents.sides)
    yield runs.summaries([s for s in contents.summaries if runs.OPERATOR not in s.point.labels])
    yield from costs.tables(contents)
    yield from runs.operator_tables(contents.summaries, tuple(contents.sides))
    yield from split.tables(contents.splits)
    yield from scaling_tables(contents.studies)
    yield from exchange.tables(contents.exchanges)
    yield from exchange.transport_tables(contents.sides)
    yield from run_time_tables(contents.run_times)


def scaling_tables(studies: Sequence[Study]) -> Iterator[Table]:
    """One table of text: each curve in short, then its kind, limit, costs, predictions and laws."""
    if studies:
        bodies = tuple(TableBody(scaling.heading(study), _scaling_rows(study)) for study in studies)
        yield Table("What follows from the scaling", ("", "conclusion"), bodies, frozenset({0, 1}))


def _scaling_rows(study: Study) -> tuple[TableRow, ...]:
    return tuple(map(TableRow, [("in short", scaling.lead(study)), *scaling.list_conclusions(study)]))


def failures_section(
    failures: Sequence[Failure], logs: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Block]:
    """Each run without a result, with the cause and its logs."""
    if failures:
        yield Heading("Failures", "failures")
        known = logs or {}
        causes = (NamedText(f.run, f.cause, _links(known.get(f.run, {}))) for f in failures)
        yield Facts(tuple(causes), short=False)


def _links(addresses: Mapping[str, str]) -> tuple[Link, ...]:
    return tuple(Link(name, url) for name, url in addresses.items())


def _provenance(contents: Contents) -> Iterator[Block]:
    sides = tuple(contents.sides)
    if differing := [fact for fact in contents.facts if fact.matters]:
        yield Paragraph("These facts differ between the sides and could have changed a number:")
        yield _fact_table("Differing facts", sides, differing)
    else:
        yield Paragraph("No fact that could have changed a number differs between the sides.")
    whole = _fact_table("All facts", sides, contents.facts)
    yield Fold((), (whole,), f"All known facts about the nodes ({len(contents.facts)} facts)", bulky=True)


def _fact_table(caption: str, sides: tuple[str, ...], facts: Sequence[ReportedFact]) -> Table:
    bodies = tuple(
        TableBody(group[0].group, tuple(TableRow((fact.name, *fact.values)) for fact in group))
        for group in gathered(facts, lambda fact: fact.group)
    )
    return Table(caption, ("fact", *sides), bodies, frozenset(range(len(sides) + 1)))


def _logs(contents: Contents) -> Fold:
    every = tuple(NamedText(run, "", _links(files)) for run, files in contents.logs.items())
    part = f"{len(every)} of " * (len(every) < contents.runs)
    more = f"Output of {part}{counted(contents.runs, 'run')}"
    return Fold((), (Facts(every, short=False),), more, bulky=True)


def recipes_section(recipes: Sequence[Recipe]) -> Iterator[Block]:
    """How to reproduce each session: its command line, its digests, its files, the commands of its trials."""
    if recipes:
        yield Heading("How to reproduce", "reproduce")
    for recipe in recipes:
        yield Heading(recipe.session)
        if recipe.command_line:
            yield Verbatim(recipe.command_line)
        known = {
            "Seed": "" if recipe.seed is None else str(recipe.seed),
            "Suite digest": f"`{recipe.suite_digest}`",
            "Plan digest": f"`{recipe.plan_digest}`",
            "Suite at": recipe.git,
            "Assay": recipe.assay_version,
        }
        yield facts_of((name, value) for name, value in known.items() if value)
        for name, text in recipe.files.items():
            yield Fold((), (Verbatim(text),), name)
        if recipe.commands:
            commands = (
                block
                for trial, command in recipe.commands.items()
                for block in (Paragraph(trial, "strong"), Verbatim(command))
            )
            yield Fold((), tuple(commands), "The command of each kind of trial", bulky=True)

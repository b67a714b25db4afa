"""The same report as Markdown, as short as a pull-request comment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from assay import redact
from assay.units import counted
from assay.version import __version__
from assay.view import costs
from assay.view.answers import Answers, answers
from assay.view.blocks import Table
from assay.view.contents import Contents, Recipe
from assay.view.page import scaling_tables
from assay.view.sentences import exchange as exchange_words
from assay.view.sentences import ranking as ranking_words
from assay.view.sentences import split
from assay.view.sentences.exchange import transport_tables
from assay.view.sentences.recommendation import lead, recommendation, together
from assay.view.tables import operator_tables, tables

MOST_ROWS = 40  # a longer table is collapsed in the comment
_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]<>#|~])")


def text(contents: Contents) -> str:
    """The report: verdicts, tables, doubts, failures, how to reproduce; ends in a newline."""
    advice = recommendation(contents)
    parts = [
        f"## {_escape_text(contents.title)}",
        f"**{advice.action}.** {_escape_text(advice.sentence)}",
        _escape_text(lead(contents)),
    ]
    parts += filter(None, [_escape_text(costs.sentence(contents))])
    parts += filter(None, [together(contents)])
    parts += [_answers(group) for group in answers(contents)]
    for ranking in contents.rankings:
        parts += [_escape_text(ranking_words.headline(ranking)), _table(ranking_words.table(ranking))]
    parts += filter(None, [_escape_text(ranking_words.how_to_read(contents.rankings))])
    if contents.uncompared:
        rows = (f"- {_escape_text(place)}: {_escape_text(why)}" for place, why in contents.uncompared)
        parts += ["### Not compared", "\n".join(rows)]
    parts += [
        _table(table)
        for table in (
            *tables(contents),
            *costs.tables(contents),
            *operator_tables(contents.summaries, tuple(contents.sides)),
            *split.tables(contents.splits),
            *scaling_tables(contents.studies),
            *exchange_words.tables(contents.exchanges),
            *transport_tables(contents.sides),
        )
    ]
    if contents.doubts:
        parts += ["### Doubts", _doubts(contents)]
    if contents.failures:
        rows = (f"- `{_code(f.run)}`: {_escape_text(f.cause)}" for f in contents.failures)
        parts += [f"### {len(contents.failures)} of {counted(contents.runs, 'run')} failed", "\n".join(rows)]
    if contents.unfinished:
        parts.append(f"{contents.unfinished} of {counted(contents.runs, 'run')} unfinished.")
    if contents.recipes:
        parts += ["### How to reproduce", *map(_recipe, contents.recipes)]
    parts.append(f"Made by Assay {__version__} from {counted(contents.runs, 'run')}.")
    if contents.left_out:
        parts.append(f"Left out: {contents.left_out}; `assay report --with-identity` keeps them.")
    return redact.text(contents.hide("\n\n".join(parts) + "\n"))


def _answers(group: Answers) -> str:
    lines = [f"### {group.title}"]
    for answer in group.answers:
        doubts = f" _Doubts: {', '.join(answer.doubts)}._" if answer.doubts else ""
        verdict = " ".join(filter(None, (answer.symbol, answer.verdict, answer.severity.upper())))
        lines.append(
            f"- **{_escape_text(verdict)}**: {_escape_text(answer.sentence)} "
            f"{_escape_text(answer.evidence)}.{doubts}"
        )
        lines += [f"  - {_escape_text(reason)}" for reason in answer.why]
    if group.doubts:
        lines.append(
            f"\n_Doubts about {'all of these' if len(group.answers) > 1 else 'this'}: "
            f"{', '.join(group.doubts)}._"
        )
    return "\n".join([lines[0], "", *lines[1:]])


def _table(table: Table) -> str:
    header = _row(table.columns)
    ruler = (
        "|" + "|".join(":--" if index in table.words else "--:" for index in range(len(table.columns))) + "|"
    )
    rows = []
    for body in table.bodies:
        if body.title:
            rows.append(
                _row((f"**{_escape_text(body.title)}**", *[""] * (len(table.columns) - 1)), escaped=True)
            )
        rows += [_row(row.cells) for row in body.rows]
    text = "\n".join([header, ruler, *rows])
    if len(rows) <= MOST_ROWS:
        return f"### {_escape_text(table.caption)}\n\n{text}"
    caption = _escape_text(table.caption)
    return f"<details><summary>{caption} ({len(rows)} rows)</summary>\n\n{text}\n\n</details>"


def _row(cells: Iterable[str], *, escaped: bool = False) -> str:
    return "| " + " | ".join(cell if escaped else _escape_text(cell) for cell in cells) + " |"


def _doubts(contents: Contents) -> str:
    return "\n".join(
        f"- **{doubt.code}** ({len(places)} {'figure' if len(places) == 1 else 'figures'}): "
        f"{_escape_text(doubt.evidence)}. {_escape_text(doubt.remedy)}."
        for doubt, places in contents.doubts
    )


def _recipe(recipe: Recipe) -> str:
    facts = [f"session `{_code(recipe.session)}`"]
    if recipe.seed is not None:
        facts.append(f"seed {recipe.seed}")
    facts += [f"suite digest `{recipe.suite_digest}`", f"plan digest `{recipe.plan_digest}`"]
    if recipe.git:
        facts.append(f"suite at {_escape_text(recipe.git)}")
    facts.append(f"Assay {_escape_text(recipe.assay_version)}")
    parts = [", ".join(facts)]
    if recipe.command_line:
        parts.append(_fenced(recipe.command_line, "sh"))
    for name, content in recipe.files.items():
        folded = _fenced(content, "yaml")
        parts.append(f"<details><summary>{_escape_text(name)}</summary>\n\n{folded}\n\n</details>")
    return "\n\n".join(parts)


def _fenced(content: str, language: str) -> str:
    """A code block whose fence is longer than any fence in the content."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content.rstrip()}\n{fence}"


def _escape_text(text: str) -> str:
    """Text that Markdown and HTML show unchanged, on one line."""
    return _MEANS_SOMETHING.sub(r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _code(text: str) -> str:
    """Text between two backticks."""
    return " ".join(text.split()).replace("`", "'")

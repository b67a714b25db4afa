"""One HTML page that can be sent to someone: it needs no network and forbids every script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from assay import __version__
from assay.analyse import explanations
from assay.report import scaling_section, split
from assay.report.answers import answers
from assay.report.charts import charts
from assay.report.contents import Contents, Fact
from assay.report.lead import about, lead, together
from assay.report.tables import gathered, tables

MOST_EVIDENCE = 1  # that a doubt shows; the rest is folded
MOST_PLACES = 2  # that an evidence names; more are counted

_CHART_TITLES = {
    "forest": "Ratios against the margin",
    "curve": "Over sizes",
    "runs": "Each run, with its side's mean and 95 % interval",
    "scaling": "Scaling: speed-up against the smallest size; dashed is ideal",
    "waterfall": "Time to train, from one side to the other",
    "timeline": "The session in time",
    "series": "During the runs",
}


def html(contents: Contents) -> str:
    """The page, complete: style, charts' runtime and data are inside."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("assay.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    style, boot = _template("page.css"), _template("page.js")
    runtime = _runtime()
    environment.filters["marked"] = _marked
    page: str = environment.get_template("page.html").render(
        c=contents,
        version=__version__,
        policy=_policy(style=style, scripts=(runtime, boot)),
        style=_trusted(style),
        runtime=_trusted(runtime),
        boot=_trusted(boot),
        lead=lead(contents),
        about=about(contents),
        together=together(contents),
        sections=_sections(contents),
        answers=answers(contents),
        doubts=_doubts(contents),
        severities=explanations.SEVERITIES,
        charts=_charts(contents),
        tables=(*tables(contents), *split.tables(contents.splits), *scaling_section.tables(contents.studies)),
        facts=_by_group(contents.facts),
        differing=_by_group([fact for fact in contents.facts if fact.matters]),
    )
    return page


@cache
def _runtime() -> str:
    """Vega, Vega-Lite and their embedding as one script, from the package that carries them: no network."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def _template(name: str) -> str:
    return (files("assay.report") / "templates" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text of our own or of the runtime, put into the page as it is; it can't end its element."""
    from markupsafe import Markup

    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("a script or style sheet would end its own element")
    return Markup(text)  # noqa: S704 - never given anything that comes from a log


def _policy(style: str, scripts: Sequence[str]) -> str:
    """A content security policy under which nothing runs but these scripts and nothing is fetched."""
    allowed = " ".join(_source_hash(script) for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {allowed}",
            f"style-src {_source_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_data(value: Any) -> Any:
    """JSON that can stand inside a script element whatever a log put into it."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - no character is left that could end the element


# What the template is given ------------------------------------------------------------------------------


def _sections(contents: Contents) -> list[tuple[str, str]]:
    present = {
        "verdicts": ("Verdicts", True),
        "doubts": ("What to doubt", bool(contents.doubts)),
        "charts": ("Charts", True),
        "numbers": ("Numbers", True),
        "failures": ("Failures", bool(contents.failures)),
        "provenance": ("Provenance", bool(contents.facts)),
        "reproduce": ("How to reproduce", bool(contents.recipes)),
    }
    return [(name, title) for name, (title, there) in present.items() if there]


def _doubts(contents: Contents) -> list[dict[str, Any]]:
    """Each code, the gravest first, with the evidences that reach farthest first and their places."""
    made = []
    by_code = gathered(contents.doubts, lambda at: at[0].code)
    for group in sorted(by_code, key=lambda group: explanations.rank(group[0][0].code)):
        ordered = sorted(group, key=lambda at: -len(at[1]))
        entries = [
            {"evidence": doubt.evidence, "reach": _reach(places), "many": len(places) > MOST_PLACES}
            for doubt, places in ordered
        ]
        made.append(
            {
                "code": ordered[0][0].code,
                "severity": explanations.EXPLANATIONS[ordered[0][0].code].severity,
                "remedy": ordered[0][0].remedy,
                "first": entries[:MOST_EVIDENCE],
                "more": entries[MOST_EVIDENCE:],
            }
        )
    return made


def _reach(places: Sequence[str]) -> str:
    return "; ".join(places) if len(places) <= MOST_PLACES else f"{len(places)} figures"


def _by_group(facts: Sequence[Fact]) -> list[tuple[str, list[Fact]]]:
    return [(group[0].group, group) for group in gathered(facts, lambda fact: fact.group)]


def _marked(words: str) -> Any:
    """Words with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = str(escape(words)).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is just a backtick
        return escape(words)
    marked = (f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return Markup("".join(marked))  # noqa: S704 - escaped above


def _charts(contents: Contents) -> list[tuple[str, list[dict[str, Any]]]]:
    """Charts of a kind under their title, each with its number on the page and its data."""
    numbered = [
        {
            "id": f"chart-{number}",
            "kind": chart.kind,
            "caption": chart.caption,
            "words": chart.words,
            "wide": chart.wide,
            "json": _as_data(chart.spec),
        }
        for number, chart in enumerate(charts(contents), start=1)
    ]
    return [(_CHART_TITLES[group[0]["kind"]], group) for group in gathered(numbered, lambda c: c["kind"])]

"""One HTML page that can be sent to someone: it needs no network and forbids every script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from assay import __version__
from assay.report import figures, sentences
from assay.report.answers import answers
from assay.report.charts import charts
from assay.report.contents import Contents
from assay.report.tables import gathered, tables

MOST_PLACES = 3  # that a doubt names; the others are counted

_CHART_TITLES = {
    "forest": "B against A",
    "curve": "Over sizes",
    "runs": "Each run, with its side's mean and 95 % interval",
    "scaling": "Scaling",
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
    page: str = environment.get_template("page.html").render(
        c=contents,
        version=__version__,
        policy=_policy(style=style, scripts=(runtime, boot)),
        style=_trusted(style),
        runtime=_trusted(runtime),
        boot=_trusted(boot),
        lead=_lead(contents),
        about=_about(contents),
        sections=_sections(contents),
        answers=answers(contents),
        doubts=_doubts(contents),
        charts=_charts(contents),
        tables=tables(contents),
        differing=[fact for fact in contents.facts if fact.matters],
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


def _lead(contents: Contents) -> str:
    if contents.questions:
        return sentences.headline(contents.questions)
    held = [r.verdict for r in contents.requirements]
    if held:
        return f"{held.count('holds')} of {len(held)} requirements hold."
    return f"{next(iter(contents.sides))}, measured alone."


def _about(contents: Contents) -> list[tuple[str, str]]:
    results = [r for side in contents.sides.values() for r in side]
    started = sorted(r.run.started_at or r.run.created_at for r in results)
    sessions = dict.fromkeys(r.run.session for r in results)
    first, last = (
        datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M") for t in (started[0], started[-1])
    )
    span = first if first == last else f"{first} to {last if last[:10] != first[:10] else last[11:]}"
    many = f"{len(sessions)} sessions" if len(sessions) > 1 else next(iter(sessions))
    return [
        ("Systems" if len(contents.sides) > 1 else "System", ", ".join(contents.sides)),
        ("Runs", f"{len(results)}" + (f", {len(contents.failures)} failed" if contents.failures else "")),
        ("Session", many),
        ("Run", f"{span} UTC"),
        ("Margin", f"±{figures.percent(contents.margin)}"),
    ]


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


def _doubts(contents: Contents) -> list[tuple[str, list[dict[str, str]]]]:
    """Each code with its evidences and the places that each concerns."""
    entries = [
        {"code": doubt.code, "evidence": doubt.evidence, "remedy": doubt.remedy, "reach": _reach(places)}
        for doubt, places in contents.doubts
    ]
    return [(group[0]["code"], group) for group in gathered(entries, lambda entry: entry["code"])]


def _reach(places: Sequence[str]) -> str:
    shown = "; ".join(places[:MOST_PLACES])
    return shown if len(places) <= MOST_PLACES else f"{shown}; and {len(places) - MOST_PLACES} more"


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

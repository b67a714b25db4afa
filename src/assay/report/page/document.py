"""The form that every page has: one file that needs no network and forbids every script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from assay import __version__, redact
from assay.report.charts.chart import Chart
from assay.report.folding import shortened

WIDEST_NAME = 36  # of a word in a table


def document(template: str, hide: Callable[[str], str] = str, **values: Any) -> str:
    """A page made from one of the templates, complete: style, charts' runtime and data are inside.

    hide  takes names out of whatever is put into the template; secrets are taken out in any case
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("assay.report.page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["marked"] = lambda words: _marked(redact.text(hide(words)))
    environment.filters["name"] = lambda words: _name(redact.text(hide(words)))
    environment.finalize = lambda value: _finalized(value, hide)
    style, boot = _template("page.css"), _template("page.js")
    runtime = _runtime()
    made: str = environment.get_template(template).render(
        version=__version__,
        policy=_policy(style=style, scripts=(runtime, boot)),
        style=_trusted(style),
        runtime=_trusted(runtime),
        boot=_trusted(boot),
        **values,
    )
    return made


def _name(words: str) -> Any:
    """Words for a cell: a name that is wider than a column is shortened, its title is the whole."""
    from markupsafe import Markup

    if len(words) <= WIDEST_NAME or " " in words:
        return words
    return Markup('<span title="{}">{}</span>').format(words, shortened(words, WIDEST_NAME))


def _finalized(value: Any, hide: Callable[[str], str]) -> Any:
    """What is put into the page, without names and secrets; our own markup has neither."""
    from markupsafe import Markup

    return redact.text(hide(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def numbered(charts: Iterable[Chart], hide: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """Charts as the templates draw them, each with its number on the page and its data."""
    return [
        {
            "id": f"chart-{number}",
            "kind": chart.kind,
            "caption": chart.caption,
            "words": chart.words,
            "wide": chart.wide,
            "json": _as_data(chart.spec, hide),
        }
        for number, chart in enumerate(charts, start=1)
    ]


@cache
def _runtime() -> str:
    """Vega, Vega-Lite and their embedding as one script, from the package that carries them: no network."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def _template(name: str) -> str:
    return (files("assay.report.page") / "templates" / name).read_text(encoding="utf-8")


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


def _as_data(value: Any, hide: Callable[[str], str]) -> Any:
    """JSON that can stand inside a script element whatever a log put into it."""
    from markupsafe import Markup

    plain = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in redact.text(hide(plain)))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - no character is left that could end the element


def _marked(words: str) -> Any:
    """Words with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = str(escape(words)).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is just a backtick
        return escape(words)
    marked = (f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return Markup("".join(marked))  # noqa: S704 - escaped above

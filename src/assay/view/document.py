"""The frame of every page: one file that needs no network and allows only its own scripts.

In the page of a run's log, nothing is markup, and nothing runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay import redact
from assay.inputs import reading
from assay.version import __version__
from assay.view import html
from assay.view.blocks import Block, Lead
from assay.view.charts.chart import Chart
from assay.view.folding import shortened

if TYPE_CHECKING:
    from jinja2 import Environment

WIDEST_NAME = 36  # characters of a word in a table


def document(
    template: str, hide: Callable[[str], str] = str, *, pictures: bool = False, **values: Any
) -> str:
    """A complete page from one of the templates, with style, chart runtime and data inside.

    pictures  whether it shows pictures, which are in the page itself
    hide  removes names from everything put into the template; secrets are removed in any case
    """
    style, boot = page_text("page.css"), page_text("page.js")
    runtime = chart_runtime()
    page: str = (
        environment(hide)
        .get_template(template)
        .render(
            version=__version__,
            policy=_policy(style=style, scripts=(runtime, boot), pictures=pictures),
            style=_trusted(style),
            runtime=_trusted(runtime),
            boot=_trusted(boot),
            **values,
        )
    )
    return page


@lru_cache(maxsize=8)  # to compile the templates takes as long as to fill them
def environment(hide: Callable[[str], str] = str, first: str | None = None) -> Environment:
    """The templates of pages; whatever is put into them is escaped, without secrets and without names.

    hide   removes names from it
    first  package whose templates replace those of the same name, such as the frame
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader

    packages = ["assay.view"] if first is None else [first, "assay.view"]
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["marked"] = lambda text: _marked(redact.text(hide(text)))
    templates.filters["name"] = lambda text: _name(redact.text(hide(text)))
    templates.finalize = lambda value: _finalized(value, hide)
    return templates


def _name(text: str) -> Any:
    """Text for a cell: a name wider than a column is shortened, with the full name as its title."""
    from markupsafe import Markup

    if len(text) <= WIDEST_NAME or " " in text:
        return text
    return Markup('<span title="{}">{}</span>').format(text, shortened(text, WIDEST_NAME))


def _finalized(value: Any, hide: Callable[[str], str]) -> Any:
    """What goes into the page, without names and secrets; our own markup contains neither."""
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


def answer_values(view: Iterable[Block], charts: Iterable[Chart], doubts_url: str = "") -> dict[str, Any]:
    """What `answer.html` shows: the blocks of an answer, whose lead is the page's, and its charts."""
    from markupsafe import Markup

    blocks = list(view)
    leads = [block.text for block in blocks if isinstance(block, Lead)]
    shown = html.fragment((block for block in blocks if not isinstance(block, Lead)), doubts_url)
    return {
        "lead": " ".join(leads),
        "answer": Markup(redact.text(shown)),  # noqa: S704 - its texts are escaped
        "charts": numbered(charts),
        "sections": [("answer", "Answer"), ("charts", "Charts")],
    }


@cache
def chart_runtime() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, without links to their source maps."""
    folder = files("assay.view") / "vega"
    listed = json.loads((folder / "versions.json").read_text(encoding="utf-8")).values()
    texts = [(folder / library["file"]).read_text(encoding="utf-8") for library in listed]
    return "\n".join(re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE) for text in texts)


def page_text(name: str) -> str:
    """The text of a template, a style sheet or a script."""
    return (files("assay.view") / "templates" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text of ours or of the runtime, inserted unchanged; it can't close its element."""
    from markupsafe import Markup

    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("a script or style sheet would close its own element")
    return Markup(text)  # noqa: S704 - never called with anything that comes from a log


def _policy(style: str, scripts: Sequence[str], *, pictures: bool) -> str:
    """A content security policy that runs only these scripts and fetches nothing."""
    images = ("img-src data:",) if pictures else ()
    allowed = " ".join(_source_hash(script) for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {allowed}",
            f"style-src {_source_hash(style)}",
            *images,
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source_hash(text: str) -> str:
    # of 48 bytes, so that its base64 does not end in `=`: what follows that may be redacted as a secret
    return f"'sha384-{base64.b64encode(hashlib.sha384(text.encode()).digest()).decode()}'"


def _as_data(value: Any, hide: Callable[[str], str]) -> Any:
    """JSON that is safe inside a script element, whatever a log put into it."""
    from markupsafe import Markup

    plain = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = _UNSAFE.sub(lambda match: _escaped(match[0]), redact.text(hide(plain)))
    return Markup(text)  # noqa: S704 - no character remains that could close the element


_UNSAFE = re.compile(r"[^\x00-\x7f]|[<>&]")


def _escaped(character: str) -> str:
    """The character as a JSON string writes it, in ASCII and without markup."""
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


def _marked(text: str) -> Any:
    """Text in which parts between backticks are code."""
    from markupsafe import Markup, escape

    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick is just a backtick
        return escape(text)
    marked = (f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
    return Markup("".join(marked))  # noqa: S704 - escaped above


HEAD_BYTES, TAIL_BYTES = 1 << 20, 4 << 20
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title></head>
<body><h1>{title}</h1><pre>{text}</pre></body></html>
"""


def log_html(title: str, log: Path, hide: Callable[[str], str] = str) -> str:
    """The program's output without secrets and names; of a long log, the first 1 MiB and last 4 MiB."""
    text = "".join(c if c.isprintable() or c in "\n\t" else "\N{MIDDLE DOT}" for c in _log_text(log))
    return _PAGE.format(title=escape(hide(title)), text=escape(hide(redact.text(text))))


def _log_text(log: Path) -> str:
    size = log.stat().st_size
    with reading(log) as file:
        if size <= HEAD_BYTES + TAIL_BYTES:
            return file.read().decode(errors="replace").replace("\r\n", "\n")
        head = file.read(HEAD_BYTES).decode(errors="replace")
        file.seek(size - TAIL_BYTES)
        tail = file.read().decode(errors="replace")
    return f"{head}\n… {size - HEAD_BYTES - TAIL_BYTES:,} bytes are left out here …\n{tail}"

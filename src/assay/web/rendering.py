"""Pages as HTML: templates, and the frame in which the blocks of an answer or a report are shown."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader
from litestar import MediaType, Response
from markupsafe import Markup

from assay import redact
from assay.units import human, human_seconds
from assay.version import __version__
from assay.view.blocks import Block
from assay.view.document import rendered
from assay.view.html import Html
from assay.view.vega_lite import chart_runtime, file_text
from assay.web.access import ASKING

STYLES = ("report.css", "site.css")
DOUBTS_URL = "/doubts"
CACHED_S = 365 * 24 * 3600  # a file of the site: its address changes when it does


def page(template: str, *, status: int = 200, **values: Any) -> Response[str]:
    """A page from one of the templates; everything put into it is escaped and without secrets."""
    return Response(
        text_of(template, **values),
        status_code=status,
        media_type=MediaType.HTML,
        headers={"Cache-Control": "no-cache"},
    )


def text_of(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return _environment().get_template(template).render(**values)


def blocks_page(
    blocks: Iterable[Block], template: str = "base.html", *, status: int = 200, **values: Any
) -> Response[str]:
    """A page of blocks: those before the first section are below its title, its navigation has the others.

    template  what shows more than the frame does
    """
    html = Html(doubts_url=DOUBTS_URL)
    summary, main = map(Markup, rendered(html, blocks))  # texts are escaped, without secrets
    shown = {"summary": summary, "main": main, "sections": html.sections, "charts": html.charts}
    return page(template, status=status, **shown | values)


def session_url(reference: str) -> str:
    """The page of `suite/session` or `suite/session/trial`; of `suite/session:system`, the session's."""
    path = reference.partition(":")[0]
    return f"/sessions/{quote(path)}"


def log_url(run: str, log: str, *, attempt: int | None = None, line: int | None = None, q: str = "") -> str:
    """The page of a log; with a line, the one that begins shortly before it."""
    parameters: dict[str, Any] = {"attempt": attempt, "line": line, "q": q}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return (
        f"{session_url(run)}/logs/{quote(log, safe='')}"
        + f"?{query}" * bool(query)
        + (f"#L{line}" if line else "")
    )


def with_query(path: str, **values: Any) -> str:
    """An address with those values that are neither empty nor None; lists repeat their name."""
    pairs: list[tuple[str, Any]] = []
    for name, value in values.items():
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        pairs += [(name, entry) for entry in several if entry not in (None, "")]
    return path + (f"?{urlencode(pairs)}" if pairs else "")


def static_file(name: str) -> tuple[bytes, str] | None:
    """A file of the site with its media type; None if there is none with this name."""
    content = _files().get(name)
    return None if content is None else (content, _TYPES[name.rpartition(".")[2]])


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def _files() -> dict[str, bytes]:
    own = {file.name: file.read_bytes() for file in (files("assay.web") / "static").iterdir()}
    texts = {
        "report.css": file_text("page.css"),
        "charts.js": file_text("page.js"),
        "vega.js": chart_runtime(),
    }
    return own | {name: text.encode() for name, text in texts.items()}


def _static_url(name: str) -> str:
    """With a digest of its content, so that it can be cached as long as a browser wants."""
    return f"/static/{hashlib.sha256(_files()[name]).hexdigest()[:12]}/{name}"


@cache
def _environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("assay.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.finalize = _without_secrets
    templates.filters["marked"] = lambda text: Markup(Html().marked(text))  # noqa: S704 - escaped
    templates.globals.update(
        version=__version__,
        styles=[_static_url(name) for name in STYLES],
        static=cache(_static_url),
        session_url=session_url,
        log_url=log_url,
        with_query=with_query,
        doubts_url=DOUBTS_URL,
        asking=ASKING.get,
    )
    templates.filters["when"] = _format_time
    templates.filters["took"] = lambda seconds: "" if seconds is None else human_seconds(seconds)
    templates.filters["size"] = lambda count: human(float(count), "B")
    templates.filters["printable"] = _printable
    templates.filters["breakable"] = _breakable
    templates.filters["tail"] = lambda path: "/".join(path.split("/")[-2:])
    return templates


def _without_secrets(value: Any) -> Any:
    """What goes into a page; our own markup contains no secret."""
    return redact.text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _format_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


def _breakable(name: str) -> Any:
    """A name in full, which a line may break after a slash or a colon: names often differ at their end."""
    from markupsafe import escape

    broken = re.sub("([/:])", r"\1<wbr>", str(escape(redact.text(name))))
    return Markup(broken)  # noqa: S704 - escaped before


def _printable(text: str) -> str:
    """Text of a log, with a dot for what could change how the rest is read."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{MIDDLE DOT}" for c in text)

"""The frame of a self-contained page: one file that needs no network and allows only its own scripts.

In the page of a run's log, nothing is markup, and nothing runs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

from assay import redact
from assay.inputs import reading
from assay.version import __version__
from assay.view.blocks import Block, Chart, Heading, Lead
from assay.view.html import Html
from assay.view.vega_lite import chart_runtime, file_text

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Assay {version}">
<title>{title} – Assay</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#{first}">Skip to the {first_name}</a>
<header>
<p class="kicker">{kicker}</p>
<h1>{title}</h1>
{summary}
<nav aria-label="Sections"><ul>{navigation}</ul></nav>
</header>
<main>
{main}
</main>
<footer><p>{footer}</p></footer>
<script type="module">{runtime}</script>
<script type="module">{boot}</script>
</body>
</html>
"""


def document(
    title: str,
    kicker: str,
    blocks: Iterable[Block],
    *,
    footer: str = "",
    hide: Callable[[str], str] = str,
    pictures: bool = False,
) -> str:
    """A complete page of blocks that have at least one section, with style, chart runtime and data inside.

    footer    what is to be known about all of it, after who made it
    hide      removes names from every text; secrets are removed in any case
    pictures  whether it shows pictures, which are in the page itself
    """
    style, boot, runtime = file_text("page.css"), file_text("page.js"), chart_runtime()
    html = Html(hide)
    summary, main = rendered(html, blocks)
    first, first_name = html.sections[0]
    return _PAGE.format(
        version=__version__,
        policy=_policy(style=style, scripts=(runtime, boot), pictures=pictures),
        title=html.text(title),
        kicker=html.text(kicker),
        first=first,
        first_name=html.text(first_name.lower()),
        navigation="".join(
            f'<li><a href="#{section}">{html.text(name)}</a></li>' for section, name in html.sections
        ),
        summary=summary,
        main=main,
        footer=html.marked(footer or f"Made by Assay {__version__}."),
        style=_own(style),
        runtime=_own(runtime),
        boot=_own(boot),
    )


def rendered(html: Html, blocks: Iterable[Block]) -> tuple[str, str]:
    """The blocks before the first section, which a page shows below its title, and its sections."""
    every = list(blocks)
    starts = (place for place, block in enumerate(every) if isinstance(block, Heading) and block.section)
    first = next(starts, len(every))
    return html.render(every[:first]), html.render(every[first:])


def answer_blocks(view: Iterable[Block], charts: Sequence[Chart]) -> list[Block]:
    """An answer as the blocks of a page: its lead, and sections for what it says and for its charts."""
    blocks = list(view)
    leads: list[Block] = [block for block in blocks if isinstance(block, Lead)]
    others = [block for block in blocks if not isinstance(block, Lead)]
    drawn: list[Block] = [Heading("Charts", "charts"), *charts] if charts else []
    return [*leads, Heading("Answer", "answer"), *others, *drawn]


def _own(text: str) -> str:
    """Text of ours or of the runtime, inserted unchanged. Raises ValueError if it can close its element."""
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("a script or style sheet would close its own element")
    return text


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


HEAD_BYTES, TAIL_BYTES = 1 << 20, 4 << 20
_LOG = """<!doctype html>
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
    return _LOG.format(title=escape(hide(title)), text=escape(hide(redact.text(text))))


def _log_text(log: Path) -> str:
    size = log.stat().st_size
    with reading(log) as file:
        if size <= HEAD_BYTES + TAIL_BYTES:
            return file.read().decode(errors="replace").replace("\r\n", "\n")
        head = file.read(HEAD_BYTES).decode(errors="replace")
        file.seek(size - TAIL_BYTES)
        tail = file.read().decode(errors="replace")
    return f"{head}\n… {size - HEAD_BYTES - TAIL_BYTES:,} bytes are left out here …\n{tail}"

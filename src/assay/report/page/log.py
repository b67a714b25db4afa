"""A run's log as a separate page: nothing in it is markup, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from assay import redact
from assay.inputs import reading

HEAD_BYTES, TAIL_BYTES = 1 << 20, 4 << 20
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title></head>
<body><h1>{title}</h1><pre>{text}</pre></body></html>
"""


def html(title: str, log: Path, hide: Callable[[str], str] = str) -> str:
    """The program's output without secrets and names; of a long log, the first 1 MiB and last 4 MiB."""
    text = "".join(c if c.isprintable() or c in "\n\t" else "\N{MIDDLE DOT}" for c in _text(log))
    return _PAGE.format(title=escape(hide(title)), text=escape(hide(redact.text(text))))


def _text(log: Path) -> str:
    size = log.stat().st_size
    with reading(log) as file:
        if size <= HEAD_BYTES + TAIL_BYTES:
            return file.read().decode(errors="replace").replace("\r\n", "\n")
        head = file.read(HEAD_BYTES).decode(errors="replace")
        file.seek(size - TAIL_BYTES)
        tail = file.read().decode(errors="replace")
    return f"{head}\n… {size - HEAD_BYTES - TAIL_BYTES:,} bytes are left out here …\n{tail}"

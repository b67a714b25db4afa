"""What draws charts: Vega's scripts for a page, and a chart's bundle for a notebook that draws it itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

NOTEBOOK_WIDTH = 640  # pixels; a notebook is no page that a chart could fill
_VARIABLE = re.compile(r"var\((--[a-z0-9-]+)\)")


@cache
def chart_runtime() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, without links to their source maps."""
    libraries = json.loads(file_text("vega/versions.json")).values()
    texts = [file_text(f"vega/{library['file']}") for library in libraries]
    return "\n".join(re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE) for text in texts)


def file_text(name: str) -> str:
    """The text of a style sheet or a script that is next to this module."""
    return files("assay.view").joinpath(*name.split("/")).read_text(encoding="utf-8")


def bundle(caption: str, text: str, plain_spec: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's output: the chart where the notebook draws Vega-Lite, else its caption and words."""
    colors = _light_colors()
    spec = json.loads(_VARIABLE.sub(lambda variable: colors[variable[1]], json.dumps(plain_spec)))
    spec["width"] = NOTEBOOK_WIDTH
    spec["config"] = {**spec.get("config", {}), "background": "white"}
    version = re.search(r"/v(\d+)", str(spec.get("$schema", "")))
    kind = f"application/vnd.vegalite.v{version[1] if version else 6}+json"
    html = f"<figure><figcaption>{escape(caption)}</figcaption><p>{escape(text)}</p></figure>"
    return {kind: spec, "text/html": html, "text/plain": f"{caption}: {text}"}


@cache
def _light_colors() -> dict[str, str]:
    """The page's CSS variables in its light theme."""
    return dict(re.findall(r"(--[a-z0-9-]+):\s*([^;]+);", file_text("page.css").partition("}")[0]))

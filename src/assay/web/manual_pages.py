"""The documentation, as it is in `docs/`, with links that work from page to page; and what doubts mean."""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count
from pathlib import Path
from typing import Any

from litestar import Response, get
from litestar.exceptions import NotFoundException

from assay.errors import InputError
from assay.questions.explain import Explain
from assay.records import SEVERITIES, SUBJECTS
from assay.view.document import answer_blocks
from assay.web.rendering import CACHED_S, blocks_page, page

START = "index.md"
_FOLDERS = {
    "tutorial": "Tutorial",
    "how-to": "How-to guides",
    "how-to/launchers": "Launchers",
    "reference": "Reference",
    "explanation": "Explanation",
}
_PICTURES = {"png": "image/png", "svg": "image/svg+xml"}


@get("/docs", sync_to_thread=True, include_in_schema=False)
def manual() -> Response[str]:
    """Its first page."""
    return _page_response(START)


@get("/docs/{path:path}", sync_to_thread=True, include_in_schema=False)
def manual_page(path: str) -> Response[Any]:
    """A page, or a picture of one."""
    name = str(path).strip("/")
    kind = name.rpartition(".")[2]
    if kind not in _PICTURES:
        return _page_response(name)
    headers = {"Cache-Control": f"public, max-age={CACHED_S // 365}"}
    return Response(_file(name).read_bytes(), media_type=_PICTURES[kind], headers=headers)


def _page_response(name: str) -> Response[str]:
    from markupsafe import Markup

    title, html = _rendered(name)
    is_start = name == START
    return page(
        "manual.html",
        here="/docs",
        title="Documentation" if is_start else title,
        html=Markup(html),  # noqa: S704 - of our own documents, without HTML in them
        actions=[] if is_start else [("All pages", f"/docs/{START}#all-pages")],
        folders=_contents() if is_start else (),
    )


@cache
def _contents() -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """Each folder's pages: title and address."""
    return [
        (
            title,
            [
                (
                    _text(path).partition("\n")[0].lstrip("# "),
                    f"/docs/{folder}/{path.name}",
                )
                for path in sorted((_root() / folder).iterdir(), key=lambda path: path.name)
                if path.name.endswith(".md")
            ],
        )
        for folder, title in _FOLDERS.items()
    ]


@cache
def _rendered(name: str) -> tuple[str, str]:
    """Title and HTML of a page."""
    from markdown_it import MarkdownIt

    if not name.endswith(".md"):
        raise NotFoundException(f"The documentation has no page {name}.")
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_text(_file(name)))
    title = "Documentation"
    if len(tokens) > 2 and tokens[0].tag == "h1":
        title = tokens[1].content
        tokens = tokens[3:]
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[index + 1].content))
        elif token.type == "fence":
            token.info = ""
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _target(name, str(child.attrGet("href") or "")))
            elif child.type == "image":
                target = _target(name, str(child.attrGet("src") or ""))
                child.attrs |= {"src": target, **_size_of(target)}
    html: str = parser.renderer.render(tokens, parser.options, {})
    html = html.replace("<pre>", '<pre tabindex="0">').replace("</table>", "</table></div>")
    numbers = count(1)
    return title, re.sub(
        "<table>",
        lambda _: (
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table {next(numbers)}"><table>'
        ),
        html,
    )


def _size_of(target: str) -> dict[str, str | int | float]:
    """Width and height of a picture of the documentation, so that nothing moves when it arrives."""
    if not target.startswith("/docs/") or not target.endswith((".png", ".svg")):
        return {}
    picture = _file(target.removeprefix("/docs/")).read_bytes()
    if target.endswith(".svg"):
        box = re.search(rb'viewBox="\S+ \S+ (\d+)\S* (\d+)', picture)
        width, height = (int(box[1]), int(box[2])) if box else (0, 0)
    else:
        width, height = struct.unpack(">II", picture[16:24])  # after the signature, the header's sizes
    return {"width": width, "height": height} if width else {}


def _target(page_name: str, link: str) -> str:
    """Where a link leads: a page of the documentation, or a file beside it that only the repository has."""
    path, sign, anchor = link.partition("#")
    if ":" in path or not path:
        return link
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page_name), path))
    return f"/docs/{place}{sign}{anchor}" if not place.startswith("..") else f"/docs/{START}"


def _anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub names it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _text(page: Traversable) -> str:
    """A page without the comment that says what writes it."""
    return re.sub(r"\A<!--.*?-->\s*", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def _file(name: str) -> Traversable:
    """A file of the documentation. Raises NotFoundException if there is none."""
    parts = name.split("/")
    wrong = any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts)
    file: Traversable | None = None if wrong else _root().joinpath(*parts)
    if file is None or not file.is_file():
        raise NotFoundException(f"The documentation has no page {name}.")
    return file


def _root() -> Traversable:
    """Where it is: in the installed package, or beside its sources."""
    installed = files("assay") / "manual"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[3] / "docs"


@get("/doubts", sync_to_thread=True, include_in_schema=False)
def doubts() -> Response[str]:
    """All doubts by subject."""
    kinds = Explain().kinds().values()
    subjects = [(title, [kind for kind in kinds if kind.subject == name]) for name, title in SUBJECTS.items()]
    return page(
        "doubts.html",
        here="/doubts",
        title="Doubts and what they mean",
        subjects=subjects,
        severities=SEVERITIES,
        command=Explain().as_command(),
    )


@get("/doubts/{code:str}", sync_to_thread=True, include_in_schema=False)
def doubt(code: str) -> Response[str]:
    """One doubt: its meaning, effect, remedy and error rates."""
    query = Explain(code)
    try:
        answer = query.answer()
    except InputError as error:
        raise NotFoundException(str(error)) from error
    return blocks_page(
        answer_blocks(answer.view(), answer.charts),
        here="/doubts",
        title=code,
        kicker="Doubt",
        command=query.as_command(),
        actions=[("All doubts", "/doubts")],
        sections=(),
    )

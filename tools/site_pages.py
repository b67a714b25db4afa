"""Hooks for mkdocs.yml: pages and files from outside docs/ become part of the site.

Pages are written for readers of the repository. Links lead from file to file, and a list, a table, or a code
block may follow a paragraph without an empty line, as in CommonMark. The site has docs/ at its root, so each
link is changed to its target's place in the site; Python-Markdown needs the empty lines. Code blocks have the
names that GitHub knows; Pygments would show a `console` block without prompts as output, in gray.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "examples")
TEXT = {".csv", ".log", ".md", ".py", ".yaml", ""}
# As in CommonMark, only a list that starts with 1 may follow a paragraph directly.
_BLOCK = re.compile(r"(?P<list>[-*] |1\. )|(?P<table>\|)|(?P<code>```)")
_FENCE = re.compile(r"```+")
_COMMANDS = re.compile(r"^( *```)console\n(?! *\$ )", re.MULTILINE)
_PROMPT = re.compile(r"^( *```)python\n(?= *>>> )", re.MULTILINE)
_FIRST_CELL = re.compile(r"<tr>\s*<td[^>]*>.*?</td>", re.DOTALL)
_PHRASE = re.compile(r"<code>(?=[^<]{25})(?=[^<]* )")
_INLINE = re.compile(r"(?<!</span>)<code[^>]*>[^<]*</code>")  # a block's code follows an empty span
_OPTION = re.compile(r"(?<=[ >])--?\w[\w-]*")
_PERCENT = re.compile(r"<(pre|code)\b.*?</\1>|(?<=\d) (?=%)", re.DOTALL)
_LINK = re.compile(r"(\]\()([^)#\s]+)([^)\s]*\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/, plus those outside it."""
    for name in OUTSIDE:
        path = ROOT / name
        for found in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if found.is_file() and found.suffix in TEXT:
                source = found.relative_to(ROOT).as_posix()
                files.append(File(source, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """The page, with links to their targets in the site."""
    here = _in_repository(page.file)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[2]))
        place = target.removeprefix("docs/")
        if ":" in link[2] or files.get_file_from_path(place) is None:
            return link[0]
        return link[1] + posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    return _separated(_highlighted(_LINK.sub(moved, markdown)))


def on_page_content(html: str, **_: object) -> str:
    """The page, with classes that site.css needs to break lines well.

    A long message in the first column of a table is a phrase, which wraps, unlike a name. An option stays
    whole, and so does a percentage outside of code.
    """
    html = _FIRST_CELL.sub(lambda cell: _PHRASE.sub('<code class="phrase">', cell[0]), html)
    html = _INLINE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
    return _PERCENT.sub(lambda match: match[0] if match[1] else "\N{NO-BREAK SPACE}", html)


def _highlighted(markdown: str) -> str:
    """Name code blocks after what they contain: commands without a prompt, or a Python session."""
    return _PROMPT.sub(r"\1pycon\n", _COMMANDS.sub(r"\1sh\n", markdown))


def _separated(markdown: str) -> str:
    """Insert an empty line between adjacent paragraphs, lists, tables, and code blocks."""
    lines: list[str] = []
    fence = ""  # the ticks that close the current code block
    before = ""
    for line in markdown.split("\n"):
        kind = "code" if fence else _kind(line, before)
        if kind != before and kind and before:
            lines.append("")
        lines.append(line)
        if ticks := _FENCE.match(line):
            fence = "" if ticks[0] == fence else fence or ticks[0]
        before = kind
    return "\n".join(lines)


def _kind(line: str, before: str) -> str:
    """What a line is part of; indented lines and those after a list item continue it."""
    if not line.strip():
        return ""
    if found := _BLOCK.match(line):
        return found.lastgroup or ""
    return before if before == "list" or line.startswith(" ") else "text"


def _in_repository(file: File) -> str:
    return Path(file.abs_src_path or "").relative_to(ROOT).as_posix()

"""The documentation site: it builds without a warning, has every page, and fetches nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import ROOT, long_but, require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS = (1280, 390)
# a browser follows their addresses by itself
_CALLED = ("script", "link", "img", "iframe", "source", "video", "audio", "form")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `mkdocs build` with this configuration does. With --quiet it would be strict no more."""
    require("mkdocs", find_spec("mkdocs") is not None, "no mkdocs here; install the extra `docs`")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", config, "--site-dir", site],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


class Addresses(HTMLParser):
    """What a browser that opens a page asks for by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _CALLED:
            names = ("src", "href", "action", "srcset")
            self.called += [value or "" for name, value in attrs if name in names]


def test_every_page_of_the_repository_is_in_the_site(site: Path) -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("README.md")]
    places = [str(p.relative_to(ROOT)).removeprefix("docs/").replace("README.md", "index.md") for p in pages]
    assert len(places) > 50
    assert [place for place in places if not (site / place).with_suffix(".html").is_file()] == []


def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    foreign = []
    for page in site.rglob("*.html"):
        addresses = Addresses()
        addresses.feed(page.read_text())
        foreign += [f"{page.name}: {one}" for one in addresses.called if re.match(r"(https?:)?//", one)]
    for sheet in site.rglob("*.css"):
        foreign += re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", sheet.read_text())
    assert foreign == []


def test_a_foreign_address_is_found() -> None:
    addresses = Addresses()
    addresses.feed('<p><a href="https://a">a</a><script src="https://b/c.js"></script>')
    assert addresses.called == ["https://b/c.js"]


def test_lists_tables_and_code_are_shown_as_such_and_not_as_text(site: Path) -> None:
    raw = re.compile(r"\|---|```|<p>[^<]*\n(?:[-*]|\d+\.) ")
    for page in site.rglob("*.html"):
        prose = re.sub(
            r"<pre.*?</pre>|<code.*?</code>|<script.*?</script>", "", page.read_text(), flags=re.DOTALL
        )
        assert raw.findall(prose) == [], page.name


def test_a_broken_link_a_missing_picture_and_a_page_outside_the_menu_fail_the_build(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("# A\n[b](b.md) [c](other.md#c) ![d](d.png)\n")
    (tmp_path / "pages" / "other.md").write_text("# Other\n")
    config = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "hooks": [], "nav": ["index.md"]}
    (tmp_path / "mkdocs.yml").write_text(json.dumps(config))
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    for word in ("'b.md'", "'#c'", "'d.png'", "other.md"):
        assert word in built.stderr


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", long_but(0, WIDTHS))
def test_a_page_opened_as_a_file_fits_its_window_and_can_be_searched(
    site: Path, browser: Browser, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index", "tutorial/first-verdict", "reference/systems", "explanation/statistics"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.locator("input[name=query]").press_sequentially("bandwidth")
    page.locator(".md-search-result__item").first.wait_for()
    assert "bandwidth" in page.locator(".md-search-result__list").inner_text().lower()
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []

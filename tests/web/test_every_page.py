"""What holds of every page, whichever it is: the pages are those of the application's routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from test_report_browser import CONTRASTS, axe_finds

import made_site
import observed_stacks
from assay import store
from assay.node_sweep import NODES
from served_site import TOKENS, ServedSite, serving, tokens_file

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("litestar")
from litestar.handlers import HTTPRouteHandler

from assay.web.access import AccessRules
from assay.web.app import routes

EVERYTHING = AccessRules(user_header="x", allowed=frozenset({"run", "push"}))
NO_PAGES = {
    "/attention",  # a part of the home page
    "/live/events",
    "/sessions/{suite:str}",  # leads to another page
    "/healthz",
    "/static/{digest:str}/{name:str}",
}
PATTERNS = sorted(
    {
        path
        for handler in routes(EVERYTHING)
        if isinstance(handler, HTTPRouteHandler) and "GET" in handler.http_methods
        for path in handler.paths
        if not path.startswith("/api/")
    }
    - NO_PAGES
)
ADDRESSES = {  # an address of each route that has parts
    "/docs/{path:path}": "/docs/how-to/serve.md",
    "/doubts/{code:str}": "/doubts/run-count",
    "/queue/{name:str}": "/queue/{queued}",
    "/scores/{folder:str}": "/scores/v3.1",
    "/scores/{folder:str}/{name:path}": "/scores/v3.1/v3.1/results/large",
    "/sessions/{suite:str}/{session:str}": "/sessions/sizes/1",
    "/sessions/{suite:str}/{session:str}/{trial:str}": "/sessions/{run}",
    "/sessions/{suite:str}/{session:str}/{trial:str}/logs/{log:str}": "/sessions/{run}/logs/rank-0.log",
    "/stacks/{digest:str}": "/stacks/{stack}",
}
ANSWERS = (  # of pages that answer a question, and a page of an error
    "/compare?a=half:good&b=half:bad",
    "/compare?a=layouts&layouts=true",
    "/data?where=width+%3E+10",
    "/history?metric=flop_rate&suite=nightly",
    "/runs?trials=true",
    "/scaling?run=sizes",
    "/scaling?run=sises",
    f"/sessions/{NODES}/{made_site.swept_runs.NEWEST}",
    "/sessions/{run}/logs/rank-0.log?q=value",
    "/start?suite=tiny.yaml",
)
PAGES = (*(ADDRESSES.get(one, one) for one in PATTERNS), *ANSWERS)
SUITE = """
suite: tiny
workload: command
params: {argv: [echo, 'speed 5'], metrics: {speed: {pattern: 'speed (?P<value>[0-9]+)', unit: 1/s}}}
repeats: 1
"""
SHIFTED = """async () => { let sum = 0;
  new PerformanceObserver(l => l.getEntries().forEach(e => { sum += e.value; })).observe(
    {type: "layout-shift", buffered: true});
  await new Promise(done => setTimeout(done, 60));
  return sum; }"""
OUT_OF_REACH = """() => [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled)
  .filter(e => { if (e.tabIndex < 0) return true;
    e.focus({focusVisible: true, preventScroll: true});
    const s = getComputedStyle(e);
    return document.activeElement !== e || s.outlineStyle === 'none' || parseFloat(s.outlineWidth) < 2; })
  .map(e => e.outerHTML.slice(0, 120))"""
CUT_OFF = """() => [...document.querySelectorAll('body *')]
  .filter(e => e.checkVisibility() && !e.closest('.words, svg, .skip'))
  .filter(e => e.getBoundingClientRect().right > innerWidth * 1.3
    || (getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1))
  .map(e => e.outerHTML.slice(0, 120))"""
PAPER_PX = 688  # A4 without margins of 14 mm; what is up to a third wider, Chromium makes smaller


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSite]:
    directory = tmp_path_factory.mktemp("pages")
    runs, options = made_site.make(directory)
    (directory / "suites").mkdir()
    (directory / "suites" / "tiny.yaml").write_text(SUITE)
    rights = (
        "--allow",
        "run",
        "--suites",
        str(directory / "suites"),
        "--tokens",
        str(tokens_file(directory)),
    )
    made = serving(runs, *options, *rights)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def parts(site: ServedSite) -> dict[str, str]:
    """What examples of addresses have in their places."""
    body = json.dumps({"suite": "tiny.yaml"}).encode()
    queued = site.ask("/api/v1/queue", "POST", who="alice", body=body, Content_Type="application/json").json
    site.until(f"/api/v1/queue/{queued['id']}", lambda one: one["state"] == "ended", who="alice")
    store.update(site.runs, observed_stacks.results())  # that run removed what nothing but the index has
    [failed] = site.runs.glob("half/2*/*-bad-r01")
    stack = site.ask("/api/v1/stacks", who="alice").json["stacks"][0]["digest"]
    return {"queued": queued["id"], "run": str(failed.relative_to(site.runs)), "stack": stack}


class Shown:
    """One page of the browser, signed in, and what it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))


@pytest.fixture(scope="module")
def shown(browser: Browser, site: ServedSite) -> Iterator[Shown]:
    signed_in = site.form("/login", {"token": TOKENS["alice"], "next": "/"})
    name, _, value = signed_in.headers["set-cookie"].partition(";")[0].partition("=")
    context = browser.new_context()
    context.add_cookies([{"name": name, "value": value, "url": site.url}])
    yield Shown(context.new_page())
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_pleasant_to_read(
    shown: Shown, site: ServedSite, parts: dict[str, str], address: str
) -> None:
    page, url = shown.page, site.url + address.format(**parts)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(media="screen", color_scheme="light")
    shown.said.clear()
    answer = page.goto(url)
    assert answer is not None
    assert "<main>" in answer.text(), "it is a page of the site"
    if page.locator(".plot").count():
        page.wait_for_selector("html[data-charts=drawn]")
    page.wait_for_selector("[aria-busy=true]", state="detached")
    assert [words for words in shown.said if "422" not in words] == []
    assert page.evaluate(SHIFTED) < 0.02
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate(OUT_OF_REACH) == []
    assert axe_finds(page) == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(CONTRASTS) == []
    for width in (800, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width
    page.set_viewport_size({"width": PAPER_PX, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_in_the_dark_on_a_phone(
    shown: Shown, site: ServedSite, parts: dict[str, str], address: str
) -> None:
    shown.page.set_viewport_size({"width": 360, "height": 800})
    shown.page.emulate_media(media="screen", color_scheme="dark")
    shown.page.goto(site.url + address.format(**parts))
    shown.page.wait_for_selector("[aria-busy=true]", state="detached")
    assert axe_finds(shown.page) == []


@pytest.mark.parametrize("address", PAGES)
def test_a_page_says_what_it_has_to_say_without_scripts(
    site: ServedSite, parts: dict[str, str], address: str
) -> None:
    answer = site.ask(address.format(**parts), who="alice")
    main = re.sub(r"<script.*?</script>|<[^>]*>", " ", answer.text.partition("<main>")[2], flags=re.DOTALL)
    assert len(main.split()) >= 5, main
    assert answer.text.count("<figure") == len(
        re.findall(r'class="words" id="[^"]+-words">[^<\s]', answer.text)
    )

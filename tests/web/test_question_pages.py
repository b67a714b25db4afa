"""Pages that answer a question: each with the answer of its command, from an address alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from click.testing import CliRunner

import made_results
import made_site
import swept_runs
from assay import store
from assay.cli import assay
from assay.node_sweep import NODES
from assay.questions.attention import AttentionKind, attention
from assay.questions.browsing import newest_sessions
from assay.records import Result
from made_results import failed
from open_site import Served, serving
from swept_runs import NEWEST

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("litestar")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs, options = made_site.make(tmp_path_factory.mktemp("pages"))
    with serving(runs, *options) as served:
        yield served


PAGES = {
    "/scaling": "sizes/1",
    "/scaling?run=sizes": "Amdahl",
    "/fabric": "Name runs of",
    "/history": "flop_rate",
    "/history?metric=flop_rate&suite=nightly": "▼",
    f"/history?metric=rate&suite={NODES}": "Every history",
    f"/sessions/{NODES}/{NEWEST}": "Each node over sweeps",
    f"/history?metric=rate&suite={NODES}&system={swept_runs.SLOW}": f"is slow in 1 sweep, such as {NEWEST}.",
    f"/runs?suite={NODES}&trials=true": f"-{swept_runs.SLOW}-r03",
    "/stacks": "torch 2.9.0",
    "/data": "6 frames",
    "/data?where=width+%3E+10": "data:image/jpeg",
    "/scores": "v3.1",
    "/scores/v3.1": 'href="/scores/v3.1/v3.1/results/large"',
    "/scores/v3.1?q=LARGE": "1 set of training logs",
    "/scores/v3.1/v3.1/results/large": "result_0.txt",
    "/docs": "How-to",
    "/docs/how-to/serve.md": "Who can read it",
    "/attention": "regression",
    "/compare?a=layouts&layouts=true": "assay compare layouts --layouts",
    "/compare?a=half": "Measure on both sides",
    "/compare?a=half:good&b=half:bad": "Measure on both sides",
}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_its_address_asks(site: Served, path: str) -> None:
    answer = site.ask(path)
    assert (answer.status, PAGES[path] in answer.text) == (200, True), answer.text[-2000:]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/scaling?run=sises", 422, "did you mean sizes"),
        ("/fabric?run=sizes", 422, "no exchange was measured"),
        ("/history?metric=thruput", 422, "throughput"),
        ("/data?where=rode+%3E+1", 422, "rode"),
        ("/stacks?package=%3D%3D", 422, "not a requirement"),
        ("/stacks/ffff", 404, "ffff"),
        ("/scores/v9.9", 404, "no folder v9.9"),
        ("/scores/v3.1/v3.1/results/none", 404, "no set v3.1/results/none"),
        ("/runs?state=fail", 422, "expected one of submitting, running, finished, failed"),
        ("/api/v1/runs?state=fail", 422, "expected one of submitting, running, finished, failed"),
        ("/api/v1/compare?a=sizes&margn=1%25", 422, "margn: there is no such parameter; choose from a, b"),
        ("/docs/nothing.md", 404, "no page nothing.md"),
        ("/docs/../pyproject.toml", 404, "no page"),
        ("/docs/%2e%2e/pyproject.toml", 404, "no page"),
    ],
)
def test_a_page_that_has_no_answer_says_why(site: Served, path: str, status: int, words: str) -> None:
    answer = site.ask(path)
    assert (answer.status, words in answer.text) == (status, True), answer.text[-2000:]


def test_the_gravest_needs_attention_first(site: Served) -> None:
    kinds = [one["kind"] for one in json.loads(site.ask("/api/v1/attention").text)["attention"]]
    assert kinds[0] == "failed"
    assert kinds == sorted(kinds, key=get_args(AttentionKind).index)


def test_the_page_of_a_failed_run_has_its_last_lines(site: Served) -> None:
    [session] = (site.runs / "half").glob("2*")
    answer = site.ask(f"/sessions/half/{session.name}/command-1x1-bad-r01")
    assert "no &lt;b&gt;luck\n</pre>" in answer.text
    assert "Its last lines" not in site.ask(f"/sessions/half/{session.name}/command-1x1-good-r01").text


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/api/v1/scale?run=sizes", "scale sizes"),
        ("/api/v1/history?metric=flop_rate&suite=nightly", "history flop_rate --suite nightly"),
        ("/api/v1/stacks", "stack show"),
        ("/api/v1/data/classes", "data classes --catalog {root}/catalog.duckdb"),
        ("/api/v1/scores?folder=v3.1", "score {root}/v3.1"),
    ],
)
def test_the_json_of_an_address_is_the_one_that_the_command_prints(
    site: Served, path: str, command: str
) -> None:
    words = [*command.format(root=site.runs.parent).split(), "--json"]
    if words[0] not in ("score", "data"):  # which read no runs
        words += ["--runs", str(site.runs)]
    printed = CliRunner().invoke(assay, words)
    assert json.loads(site.ask(path).text) == json.loads(printed.stdout)


def test_the_page_of_a_stack_is_linked_and_shows_its_packages_and_figures(site: Served) -> None:
    stacks = json.loads(site.ask("/api/v1/stacks").text)["stacks"]
    listed = [one for one in stacks if one["packages"].get("numpy") == "2.3.0"]  # not this machine's
    assert len(listed) == 2
    for stack in listed:
        assert f'href="/stacks/{stack["digest"]}"' in site.ask("/stacks").text
        page = site.ask(f"/stacks/{stack['digest']}").text
        assert stack["packages"]["torch"] in page
        assert "Figures, primary ones first" in page


def test_every_link_of_the_documentation_leads_to_a_page(site: Served) -> None:
    start = site.ask("/docs").text
    assert "<title>Documentation – Assay</title>" in start
    assert ("Written by" in start, ">Commands</a>" in start) == (False, True)
    assert "<h1>Commands</h1>" in site.ask("/docs/reference/commands.md").text
    links = {link.partition("#")[0] for link in re.findall(r'href="(/docs/[^"]+)"', start)}
    assert len(links) > 20
    assert [link for link in sorted(links) if site.ask(link).status != 200] == []


@pytest.mark.browser
def test_a_reader_without_javascript_gets_every_figure_as_text(browser: Browser, site: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(f"{site.url}scaling?run=sizes")
    assert "speed-up" in shown.locator("main").inner_text()
    said = shown.locator("figure .words").first.bounding_box()
    assert said is not None
    assert said["width"] > 200
    shown.get_by_role("link", name="History").click()
    shown.get_by_role("link", name="flop_rate", exact=True).click()
    assert "changed by" in shown.locator("body").inner_text()
    context.close()


@pytest.mark.browser
def test_the_pages_can_be_used_with_the_keyboard_alone(browser: Browser, site: Served) -> None:
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(f"{site.url}scaling")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    shown.keyboard.press("Enter")
    shown.get_by_label("Runs").focus()
    shown.keyboard.type("sizes")
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/scaling?run=sizes*")
    assert shown.get_by_text("limited by").count()
    context.close()


def test_a_sweep_of_many_nodes_hides_no_other_session_and_no_other_suites_trouble(tmp_path: Path) -> None:
    nodes = [f"node{number:03}" for number in range(450)]
    _, swept = made_results.quickstart(nodes, (made_results.ONE,), ("matmul",), blocks=1)
    _, before = made_results.quickstart(("here",), (made_results.ONE,), ("matmul",), blocks=1)

    def at(result: Result, suite: str, created_at: float) -> Result:
        run = result.run
        name = f"{suite}/{run.session}/{run.trial.id}"
        return replace(result, run=replace(run, suite=suite, id=name, created_at=created_at))

    store.update(tmp_path, [at(failed(r), "before", 1.0) for r in before])
    store.update(tmp_path, [at(r, "swept", 2.0) for r in swept])
    first, second = newest_sessions(15, runs=tmp_path)
    assert (first.suite, len(first.systems), first.finished) == ("swept", 450, 450)
    assert (second.suite, second.measured, second.failed) == ("before", (), 1)
    assert ("before", "failed") in {
        (one.session.partition("/")[0], one.kind) for one in attention(runs=tmp_path)
    }

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from click.testing import CliRunner
from test_exchange_curves import metrics as exchange_metrics
from test_exchange_report import of as exchange

import made_results
import served_runs
from assay.analyse.history import histories
from assay.cli import assay
from assay.questions.history import Histories
from assay.records import ConfusionMatrix
from assay.view.contents import Recipe, ReportedFact, gather
from assay.view.document import answer_blocks, document
from assay.view.report import html_page
from assay.view.sentences import history
from assay.view.sentences.history import FactChange
from made_results import all_reduce, by_system, failed, nightly, quickstart
from made_sweeps import sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

pytestmark = pytest.mark.browser

DRAWN = "html[data-charts=drawn]"
EVIL = "</script><script>window.caught=1</script><img src=x onerror=window.caught=2>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it, among it a failed run and words that would run if they could."""
    plan, results = quickstart()
    results[5] = failed(results[5], EVIL)
    matrix = ConfusionMatrix(("digit", EVIL, "never seen"), ((90, 10, 0), (3, 7, 0), (0, 0, 0)))
    results[0] = replace(results[0], reading=replace(results[0].reading, confusion=matrix))
    contents = gather(
        by_system(results),
        made_results.metrics,
        plan=plan,
        facts=[ReportedFact("python.torch", "Libraries", ("2.8.0", EVIL), differs=True, matters=True)],
        recipes=[
            Recipe(
                "quickstart/s1",
                "assay run suite.yaml",
                seed=1,
                plan_digest="aa",
                suite_digest="bb",
                assay_version="0.1.0",
                git=f"{'4a' * 20} on main",
                files={"suite.yaml": EVIL},
            )
        ],
    )
    path = tmp_path_factory.mktemp("report") / "page.html"
    path.write_text(html_page(contents))
    return path


class Seen:
    """What a page did while it was open: requests beside itself, and everything on the console."""

    def __init__(self, shown: Page, own: str) -> None:
        self.requests: list[str] = []
        self.console: list[str] = []
        shown.on("request", lambda request: request.url == own or self.requests.append(request.url))
        shown.on("console", lambda message: self.console.append(message.text))
        shown.on("pageerror", lambda error: self.console.append(str(error)))


Opened = Callable[..., tuple["Page", Seen]]
DESK: ViewportSize = {"width": 1280, "height": 900}


def open_page(
    browser: Browser, path: Path, width: int = DESK["width"], **options: str | bool
) -> tuple[Page, Seen]:
    """The page in a context of its own, offline, its charts drawn: seconds of CPU time."""
    context = browser.new_context(viewport={**DESK, "width": width}, offline=True, **options)
    shown = context.new_page()
    seen = Seen(shown, path.as_uri())
    shown.goto(path.as_uri(), timeout=180_000)  # a page with every chart, on a busy machine
    shown.wait_for_selector(DRAWN, timeout=180_000)
    return shown, seen


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """Opens the report (or another) afresh."""
    pages = []

    def fresh(path: Path = report, **options: Any) -> tuple[Page, Seen]:
        pages.append(open_page(browser, path, **options))
        return pages[-1]

    yield fresh
    for shown, _ in pages:
        shown.context.close()


@pytest.fixture(scope="module")
def one_page(browser: Browser, report: Path) -> Iterator[tuple[Page, Seen]]:
    """The report, opened once."""
    shown, seen = open_page(browser, report, color_scheme="light")
    yield shown, seen
    shown.context.close()


@pytest.fixture
def desk(one_page: tuple[Page, Seen]) -> Iterator[tuple[Page, Seen]]:
    """The report on a desk in the light, for tests that leave it as it is but for its window and media."""
    shown, _ = one_page
    yield one_page
    shown.set_viewport_size(DESK)
    shown.emulate_media(color_scheme="light", media="screen")


@pytest.fixture
def without_scripts(browser: Browser, report: Path) -> Iterator[Page]:
    """The report where scripts don't run."""
    context = browser.new_context(java_script_enabled=False, offline=True)
    shown = context.new_page()
    shown.goto(report.as_uri())
    yield shown
    context.close()


def test_every_figure_draws_its_marks_and_asks_no_network(desk: tuple[Page, Seen]) -> None:
    shown, seen = desk
    figures = shown.locator("figure")
    assert figures.count() == 23
    for at in range(figures.count()):
        figure = figures.nth(at)
        marks = figure.locator(
            "svg .mark-symbol path, svg .mark-line path, svg .mark-rule line, svg .mark-rect path"
        )
        assert marks.count() >= 2, figure.locator("figcaption").inner_text()
    assert seen.requests == []
    assert seen.console == []


def test_nothing_that_a_log_says_runs(desk: tuple[Page, Seen]) -> None:
    shown, seen = desk
    assert shown.evaluate("window.caught") is None
    assert seen.console == []


@pytest.mark.long
def test_a_tooltip_shows_a_hostile_name_as_text(opened: Opened, tmp_path: Path) -> None:
    plan, results = quickstart(systems=("here", EVIL), benchmarks=("resnet50",))
    path = tmp_path / "hostile.html"
    path.write_text(html_page(gather(by_system(results), made_results.metrics, plan=plan)))
    shown, seen = opened(path)
    for at in (0, 4, 7):
        shown.locator("figure.runs .mark-symbol path").nth(at).hover(force=True)
        shown.wait_for_selector("#vg-tooltip-element.visible", timeout=5_000)
    assert shown.locator("#vg-tooltip-element img").count() == 0
    assert shown.evaluate("window.caught") is None
    assert seen.console == []


def test_the_page_has_its_landmarks_and_headings_in_order(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    for landmark in ("header", "nav", "main", "footer"):
        assert shown.locator(landmark).count() == 1
    assert shown.locator("h1").all_inner_texts() == ["quickstart"]
    assert shown.locator("h2").all_inner_texts() == [
        "Verdicts",
        "Doubts",
        "Charts",
        "Numbers",
        "Failures",
        "Provenance",
        "How to reproduce",
    ]
    levels = [
        int(name[1]) for name in shown.eval_on_selector_all("h1,h2,h3,h4", "es => es.map(e => e.tagName)")
    ]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert shown.locator("table").count() == shown.locator("table > caption").count()
    assert shown.locator("thead th:not([scope]), tbody th:not([scope])").count() == 0


def test_every_chart_is_described_for_who_can_not_see_it(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    for plot in shown.locator(".plot").all():
        assert plot.get_attribute("role")
        assert plot.get_attribute("aria-label")
        words = shown.locator(f"#{plot.get_attribute('aria-describedby')}").text_content()
        assert words is not None
        assert re.search(r"\d", words)


def test_dark_and_light_differ_and_charts_follow_without_being_drawn_again(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    look = """() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('figure.runs .mark-symbol path')).fill,
        getComputedStyle(document.querySelector('figure.runs .mark-text text')).fill]"""
    light = shown.evaluate(look)
    shown.emulate_media(color_scheme="dark")
    dark = shown.evaluate(look)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    shown.emulate_media(media="print")
    assert shown.evaluate(look)[0] == "rgb(255, 255, 255)"


CONTRASTS = """() => {
  const channel = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const luminance = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
    return .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b); };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const kinds = 'h1,h2,h3,p,dt,dd,a,th,td,caption,figcaption,summary,code';
  return [...document.querySelectorAll(kinds)].filter(e => e.textContent.trim()).map(e => {
    const [x, y] = [luminance(getComputedStyle(e).color), luminance(behind(e))].sort((a, b) => b - a);
    return [(x + .05) / (y + .05), e.tagName + ' ' + e.textContent.trim().slice(0, 40)]; })
    .filter(([ratio]) => ratio < 4.5); }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_a_contrast_of_four_and_a_half(
    desk: tuple[Page, Seen], scheme: Literal["light", "dark"]
) -> None:
    shown, _ = desk
    shown.emulate_media(color_scheme=scheme)
    assert shown.evaluate(CONTRASTS) == []


def axe_finds(shown: Page) -> list[tuple[str, list[str]]]:
    """What axe-core would have mended, everything that is folded shown."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for summary in shown.locator("summary").all():
        summary.click()
    found = axe.Axe().run(shown).response
    assert len(found["passes"]) > 20
    return [(v["id"], [node["html"] for node in v["nodes"][:3]]) for v in found["violations"]]


def fits_and_reads_well(opened: Opened, path: Path) -> None:
    """On a phone in the dark and on a desk in the light."""
    for width, scheme in ((375, "dark"), (1280, "light")):
        shown, _ = opened(path, width=width, color_scheme=scheme, bypass_csp=True)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate(CONTRASTS) == []
        assert axe_finds(shown) == []


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (375, "dark"),
        *(
            pytest.param(*other, marks=pytest.mark.long)
            for other in ((375, "light"), (768, "light"), (1280, "light"), (1280, "dark"))
        ),
    ],
)
def test_the_page_never_scrolls_sideways_and_axe_finds_nothing_to_mend(
    opened: Opened, scheme: str, width: int
) -> None:
    shown, _ = opened(width=width, color_scheme=scheme, bypass_csp=True)  # axe itself is a script
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    wider = "es => es.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    assert shown.eval_on_selector_all("figure svg", wider) == 0
    assert axe_finds(shown) == []


def test_charts_fit_a_window_made_smaller_after_they_were_drawn(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    shown.set_viewport_size({"width": 400, "height": 900})
    shown.wait_for_function(
        "[...document.querySelectorAll('figure svg')].every(e => e.getBoundingClientRect().right <= 401)"
    )
    assert shown.evaluate("document.documentElement.scrollWidth") <= 400


def test_everything_is_reached_with_the_keyboard(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    reached = set()
    for _ in range(200):
        shown.keyboard.press("Tab")
        now = shown.evaluate(
            "document.activeElement.tagName + '.' + (document.activeElement.className || '').split(' ')[0]"
        )
        reached.add(now)
        if now == "BODY.":
            break
    assert {"A.skip", "A.", "A.doubt", "DIV.scroll", "SUMMARY.", "PRE."} <= reached


def test_the_skip_link_leads_to_the_verdicts(without_scripts: Page) -> None:
    without_scripts.keyboard.press("Tab")
    without_scripts.keyboard.press("Enter")
    without_scripts.wait_for_url("**#verdicts", timeout=5_000)


def test_print_has_pages_and_no_chart_wider_than_the_paper(desk: tuple[Page, Seen]) -> None:
    shown, _ = desk
    pdf = shown.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3
    shown.emulate_media(media="print")
    shown.set_viewport_size({"width": 690, "height": 1000})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 690


@pytest.mark.long
def test_a_curve_over_payload_sizes_draws_with_binary_units(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "curve.html"
    path.write_text(html_page(gather(by_system(all_reduce()), made_results.metrics)))
    shown, seen = opened(path)
    labels = shown.locator("figure.curve .role-axis-label text").all_text_contents()
    assert any(label.endswith("KiB") for label in labels)
    assert any(label.endswith("MiB") for label in labels)
    assert seen.console == []


@pytest.mark.long
def test_exchanges_draw_their_lines_crosses_and_line_rate_and_axe_finds_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    sides = {name: [exchange(name, block) for block in range(1, 6)] for name in ("here", EVIL)}
    path = tmp_path / "exchange.html"
    path.write_text(html_page(gather(sides, exchange_metrics)))
    shown, seen = opened(path)
    bandwidth = shown.locator("figure.exchange").first
    assert bandwidth.locator("svg .mark-area path").count() == 2
    assert bandwidth.locator("svg .mark-symbol path").count() >= 2 * 24 + 2
    assert bandwidth.locator("svg .mark-text text", has_text="line rate of 1 × EDR InfiniBand").count() == 1
    assert shown.locator("figure.ratios svg .mark-symbol path").count() == 24
    assert shown.evaluate("window.caught") is None
    assert (seen.requests, seen.console) == ([], [])
    fits_and_reads_well(opened, path)


@pytest.mark.long
def test_a_history_draws_its_sessions_levels_and_steps_and_axe_finds_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    nights = [*nightly([1.0] * 7 + [0.9] * 6), *nightly([1.0] * 8, system="there")]
    found = histories(nights, "throughput", metrics=made_results.metrics)
    told = [
        history.annotate(one, lambda _old, _new: (FactChange("env.NCCL_DEBUG", "WARN", EVIL),), {})
        for one in found
    ]
    path = tmp_path / "history.html"
    answer = Histories("throughput", tuple(told))
    path.write_text(document("throughput", "Assay history", answer_blocks(answer.view(), answer.charts)))
    shown, seen = opened(path)
    for at, sessions in enumerate((13, 8)):
        figure = shown.locator("figure.history").nth(at)
        assert figure.locator("svg .mark-symbol path").count() == sessions
    assert shown.locator("figure.history svg .mark-text text", has_text="−").count() == 1
    assert shown.evaluate("window.caught") is None
    assert (seen.requests, seen.console) == ([], [])
    fits_and_reads_well(opened, path)


@pytest.mark.long
def test_heat_maps_of_a_sweep_draw_their_cells_and_axe_finds_nothing(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(sweep(12, prefix=EVIL).html_page())
    shown, seen = opened(path)
    for kind, cells in (("nodes", 12 * 3), ("pairs", 12 * 5)):
        assert shown.locator(f"figure.{kind} svg .mark-rect path").count() == cells
    shown.locator("figure.pairs svg .mark-rect path").first.hover(force=True)
    shown.wait_for_selector("#vg-tooltip-element.visible", timeout=5_000)
    assert shown.evaluate("window.caught") is None
    assert (seen.requests, seen.console) == ([], [])
    fits_and_reads_well(opened, path)


@pytest.mark.long
def test_a_thousand_nodes_are_drawn_in_seconds(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(sweep(1_000).html_page())
    shown, seen = opened(path)  # which waits for thirty seconds at most
    assert shown.locator("figure.pairs svg").count() == 2
    assert shown.locator("svg .mark-rect path").count() < 1_500
    assert seen.console == []


@pytest.mark.long
def test_the_clock_of_a_timeline_has_24_hours_and_a_date_at_midnight(opened: Opened, tmp_path: Path) -> None:
    plan, results = quickstart(benchmarks=("resnet50",))
    begun = 1772409480.0  # 2026-03-01 23:58 UTC, two minutes before the day's end
    at = [begun + 15 * number for number in range(len(results))]
    late = [
        replace(r, run=replace(r.run, started_at=t, ended_at=t + 14))
        for r, t in zip(results, at, strict=True)
    ]
    path = tmp_path / "late.html"
    path.write_text(html_page(gather(by_system(late), made_results.metrics, plan=plan)))
    shown, _ = opened(path)
    axis = shown.locator("figure.timeline").first.locator(".role-axis-label text").all_text_contents()
    times = [label for label in axis if not label.startswith("here")]
    assert "Mar 02" in times
    assert all(re.fullmatch(r"\d\d:\d\d(:\d\d)?|Mar 02", label) for label in times)


@pytest.mark.parametrize("width", [pytest.param(width, marks=pytest.mark.long) for width in (375, 690)])
def test_two_real_sets_draw_their_waterfall_and_no_layer_is_without_a_name(
    opened: Opened, mlperf_logs: Path, tmp_path: Path, width: int
) -> None:
    sets = {
        "ubuntu": mlperf_logs / "v3.0",
        "openshift": mlperf_logs
        / "v3.1"
        / "Supermicro-RedHat"
        / "AS-4125GS-TNRT-RedHat-OpenShift"
        / "resnet",
    }
    path, runs = tmp_path / "split.html", str(tmp_path / "runs")
    for name, logs in sets.items():
        done = CliRunner().invoke(assay, ["import", str(logs), "--name", name, "--runs", runs])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(assay, ["report", *sets, "--runs", runs, "-o", str(path)])
    assert done.exit_code == 0, done.output
    shown, seen = opened(path)
    figure = shown.locator("figure.waterfall")
    assert figure.locator("svg .mark-rect path").count() == 8  # six causes between the two sides
    assert (seen.requests, seen.console) == ([], [])
    shown, _ = opened(path, width=width, bypass_csp=True)
    assert shown.locator("figure.forest g[role=graphics-symbol]:empty").count() > 0  # no interval is cut
    assert axe_finds(shown) == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    shown.emulate_media(media="print")
    shown.set_viewport_size({"width": 690, "height": 900})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 690


def test_without_scripts_the_page_still_says_everything(without_scripts: Page) -> None:
    assert without_scripts.locator(".sentence").count() >= 5
    assert without_scripts.locator("tbody td").count() > 50
    assert without_scripts.locator("noscript .warning").is_visible()


@pytest.mark.long
def test_curves_of_inference_draw_their_marks(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "served.html"
    path.write_text(html_page(gather(served_runs.served(), served_runs.metrics)))
    shown, seen = opened(path)
    figure = shown.locator("figure.served")
    runs_and_crosses = 3 * (5 + 3) + 3 * 2
    assert figure.locator("svg .mark-symbol.role-mark path").count() == runs_and_crosses
    assert figure.locator("svg .mark-line.role-mark path").count() == 2
    assert shown.locator("figure.latency").count() == 5
    ticks = shown.locator("figure.latency").first.locator("svg .role-axis-label text").all_text_contents()
    assert {"50", "90", "99", "99.9"} <= set(ticks)
    assert seen.console == []

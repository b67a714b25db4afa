"""`assay serve` as a process, asked over its port: what a page shows, and what an attacker doesn't get."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from test_report_browser import CONTRASTS, axe_finds

from assay.cli import assay
from assay.web.live import MOST_STREAMS
from open_site import Answer, Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("litestar")

EVIL = "</script><script>window.caught=1</script><img src=x onerror=window.caught=2>"
SECRET = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
TABLE = "system,benchmark,metric,value,unit,better,run\n" + "".join(
    f'"{system}",train,throughput,{value},images/s,higher,{run}\n'
    for system, values in (("a", (100, 101, 102)), (f"b {EVIL}", (83, 84, 85)))
    for run, value in enumerate(values)
)


@dataclass(frozen=True)
class HostileSite(Served):
    """A server of the runs in `runs`, and the run whose log is hostile."""

    run: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileSite]:
    directory = tmp_path_factory.mktemp("served")
    (directory / "table.csv").write_text(TABLE)
    runs = directory / "runs"
    done = CliRunner().invoke(assay, ["import", str(directory / "table.csv"), "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    [*_, attempt] = sorted(runs.glob("table/1/*/attempt-1"))
    lines = [f"step {at}" for at in range(1, 1201)]
    lines[700] = f"{EVIL} \x1b[2J\u202e token={SECRET}"
    (attempt / "logs" / "rank-0.log").write_text("\n".join(lines))
    (attempt / "logs" / "wide.log").write_text(f"first\n{'x' * 9000} needle {'y' * 9000}\nlast needle\n")
    with serving(runs) as site:
        yield HostileSite(site.url, site.port, runs, f"table/1/{attempt.parent.name}")


def as_json(answer: Answer) -> Any:
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


def test_the_verdict_of_an_address_is_the_one_that_the_command_prints(served: HostileSite) -> None:
    printed = CliRunner().invoke(assay, ["compare", "table", "--json", "--runs", str(served.runs)])
    assert as_json(served.ask("/api/v1/compare?a=table")) == json.loads(printed.output)
    page = served.ask("/compare?a=table&margin=1%25")
    assert page.status == 200
    assert "▼" in page.text
    assert "assay compare table --margin 1%" in page.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, "Newest sessions"),
        ("/attention", 200, "slower"),
        ("/runs?q=NUMBERS&sort=-failed", 200, "2 sets, page 1 of 1"),
        ("/runs?trials=true&limit=2&number=2", 200, "6 runs, page 2 of 3"),
        ("/sessions/table/1", 200, "Do not accept"),
        ("/sessions/none", 404, "no suite none"),
        ("/doubts/drift", 200, "Remedy"),
        ("/live", 200, "Nothing is running"),
        ("/api", 200, "/api/v1/compare"),
        ("/compare?a=tabel", 422, "did you mean table"),
        ("/compare?a=tabel", 422, 'The list of <a href="/runs">runs</a>'),
        ("/runs?sort=nothing", 422, "expected created_at"),
        ("/runs?number=0", 400, "number"),
        ("/sessions/none/1", 404, "no session none/1"),
        ("/doubts/none", 404, "there is no doubt none"),
        ("/api/v1/show?run=none", 422, "no runs with this name"),
        ("/nothing", 404, "Not Found"),
    ],
)
def test_every_address_answers_with_a_page_or_says_what_is_wrong(
    served: HostileSite, path: str, status: int, words: str
) -> None:
    answer = served.ask(path)
    assert (answer.status, words in answer.text) == (status, True), answer.text[-500:]
    assert "window.caught=1</script>" not in answer.text


def test_the_address_of_a_suite_leads_to_its_sessions(served: HostileSite) -> None:
    answer = served.ask("/sessions/table")
    assert (answer.status, answer.headers["location"]) == (302, "/runs?suite=table")


def test_a_list_has_every_name_in_full_because_runs_differ_at_their_ends(served: HostileSite) -> None:
    listed = served.ask("/runs?trials=true").text.replace("<wbr>", "")
    names = re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', listed)
    assert len(set(names)) == 6
    assert served.run in names


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/table/..%2f..%2f..%2fetc/passwd",
        "/sessions/../../etc/passwd",
        "/sessions/table/1/../../../../etc/passwd",
        "/sessions/%2e%2e/%2e%2e/x",
        "/static/x/..%2f..%2fapp.py",
        "/api/v1/logs?run=../../etc",
        "/api/v1/logs?run=table/1/..",
        "/api/v1/log?run=table/1/.&log=session.json",
    ],
)
def test_no_address_leads_out_of_the_runs(served: HostileSite, path: str) -> None:
    answer = served.ask(path)
    assert answer.status in (404, 422), answer.text
    assert "root:" not in answer.text


def test_a_log_that_links_to_another_file_is_refused(served: HostileSite) -> None:
    link = served.runs / served.run / "attempt-1" / "logs" / "rank-9.log"
    link.symlink_to("/etc/passwd")
    answer = served.ask(f"/sessions/{served.run}/logs/rank-9.log")
    link.unlink()
    assert answer.status == 422
    assert "root:" not in answer.text


def test_a_request_for_another_host_or_to_change_something_is_refused(served: HostileSite) -> None:
    assert served.ask("/", host="evil.example").status == 421
    assert served.ask("/", host=f"localhost:{served.port}").status == 200
    assert served.ask("/runs", method="POST").status == 405
    assert served.ask(f"/runs?q={'x' * 9000}").status == 414


def test_each_answer_has_the_headers_that_keep_it_harmless(served: HostileSite) -> None:
    for path in ("/", "/nothing", "/api/v1/runs"):
        headers = served.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_who_has_an_answer_already_is_only_told_that_nothing_changed(served: HostileSite) -> None:
    first = served.ask("/api/v1/doubts")
    again = served.ask("/api/v1/doubts", if_none_match=first.headers["etag"])
    assert (again.status, again.text) == (304, "")
    head = served.ask("/api/v1/doubts", method="HEAD")
    assert (head.status, head.text) == (200, "")


def test_a_log_is_read_in_pages_searched_and_shows_no_secret(served: HostileSite) -> None:
    page = served.ask(f"/sessions/{served.run}/logs/rank-0.log?line=701")
    assert 'id="L701"' in page.text
    assert 'id="L600"' not in page.text
    assert SECRET not in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert "&lt;img src=x" in page.text
    log = f"run={quote(served.run)}&log=rank-0.log"
    assert as_json(served.ask(f"/api/v1/log?{log}&line=1150"))["next"] is None
    found = as_json(served.ask(f"/api/v1/log/search?{log}&q=STEP%2012"))
    assert [line["number"] for line in found["lines"]] == [12, *range(120, 130), 1200]
    assert as_json(served.ask(f"/api/v1/log/search?{log}&q={SECRET[:12]}"))["lines"] == []


def test_the_line_of_a_search_in_a_long_line_opens_around_the_words(served: HostileSite) -> None:
    here = f"/sessions/{served.run}/logs/wide.log"
    hit, short = re.findall(r'href="([^"]+)#L[23]"', served.ask(f"{here}?q=needle").text)
    assert "around" not in short
    opened = served.ask(hit.replace("&amp;", "&")).text
    assert ("<mark>needle</mark>" in opened, opened.count('class="line"')) == (True, 3)
    assert opened.count("needle") == 2, "other lines are as they are, without marks"


def test_the_description_of_the_api_names_every_question(served: HostileSite) -> None:
    described = as_json(served.ask("/api/v1/openapi.json"))
    assert described["openapi"].startswith("3.1")
    assert {"/api/v1/runs", "/api/v1/compare", "/api/v1/log/search"} <= described["paths"].keys()
    following = as_json(served.ask("/api/v1/runs?trials=true&limit=4"))["next"]
    assert len(as_json(served.ask(following))["runs"]) == 2


def test_an_index_that_is_deleted_or_damaged_meanwhile_is_made_again(served: HostileSite) -> None:
    index = served.runs / "index.duckdb"
    for spoil in (index.unlink, lambda: index.write_bytes(b"x" * 9000)):
        spoil()
        assert served.ask("/runs").status == 200
        assert served.ask("/sessions/table/1").status == 200


def test_a_stream_of_what_runs_begins_at_once(served: HostileSite) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", "/live/events")
    got = connection.getresponse()
    assert got.headers["content-type"].startswith("text/event-stream")
    lines = iter(got.readline, b"")
    assert b"Nothing is running" in next(line for line in lines if line.startswith(b"data:"))
    connection.close()


def test_one_more_browser_than_may_follow_is_told_so(
    served: HostileSite, capfd: pytest.CaptureFixture[str]
) -> None:
    def followed() -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        connection.request("GET", "/live/events")
        return connection, connection.getresponse()

    following = [followed() for _ in range(MOST_STREAMS)]
    for _, stream in following:
        assert stream.readline()
    connection, refused = followed()
    assert refused.status == 503
    assert b"100 browsers follow already" in refused.read()
    assert "Traceback" not in capfd.readouterr().err
    connection.close()
    for connection, _ in following:
        connection.close()


PAGES = (
    "/",
    "/runs",
    "/compare?a=table",
    "/sessions/table/1",
    "{run}",
    "{run}/logs/rank-0.log?line=701",
    "/live",
)


@pytest.mark.long
@pytest.mark.browser
def test_in_a_browser_nothing_hostile_runs_and_axe_finds_nothing(
    browser: Browser, served: HostileSite
) -> None:
    said: list[str] = []
    for width, scheme in ((375, "dark"), (1280, "light")):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=False
        )
        shown = context.new_page()
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        for path in PAGES:
            shown.goto(served.url.rstrip("/") + path.format(run=f"/sessions/{served.run}"))
            if shown.locator(".plot").count():
                shown.wait_for_selector("html[data-charts=drawn]")
            shown.wait_for_selector("[aria-busy=true]", state="detached")
            assert shown.evaluate("window.caught") is None
            assert shown.evaluate("document.documentElement.scrollWidth") <= width, path
            assert shown.evaluate(CONTRASTS) == [], path
            assert said == [], path
            assert axe_finds(shown) == [], path
        context.close()

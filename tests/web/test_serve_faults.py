"""What goes wrong while pages are open: each with a real server, which goes on answering."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from assay.cli import assay
from assay.durable import locked
from assay.questions.browsing import browse, refresh
from assay.web.server import STOPPED_S
from served_site import ASSAY, ServedSite, serving, tokens_file

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("litestar")
TABLE = "system,benchmark,metric,value,unit,better,run\n" + "".join(
    f"{system},train,throughput,{value},images/s,higher,{run}\n"
    for system, values in (("a", (100, 101, 102)), ("b", (83, 84, 85)))
    for run, value in enumerate(values)
)
WATCHED = """
suite: watched
benchmarks:
  tiny:
    workload: command
    params:
      argv: ["sh", "-c", "sleep 120; echo speed 5"]
      metrics: {speed: {pattern: "speed (?P<value>[0-9]+)", unit: "1/s", better: higher}}
"""
WAIT_MS = 180_000  # for what takes seconds on a machine that does nothing else
PAGES = ("/", "/runs", "/runs?trials=true", "/compare?a=keep", "/sessions/keep/1", "/attention")


def import_table(runs: Path, name: str) -> None:
    table = runs.parent / f"{name}.csv"
    runs.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(TABLE)
    done = CliRunner().invoke(assay, ["import", str(table), "--runs", str(runs)])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSite]:
    runs = tmp_path_factory.mktemp("faults") / "runs"
    import_table(runs, "keep")
    made = serving(runs)
    yield made
    made.stop()


def statuses(site: ServedSite) -> list[int]:
    with ThreadPoolExecutor(4) as threads:
        return [answer.status for answer in threads.map(site.ask, PAGES)]


@pytest.mark.long
def test_pages_answer_while_the_index_is_rebuilt_replaced_or_damaged(site: ServedSite) -> None:
    index = site.runs / "index.duckdb"
    other = site.runs.parent / "other" / "runs"
    import_table(other, "other")

    def rebuild() -> None:
        assert CliRunner().invoke(assay, ["index", "--runs", str(site.runs)]).exit_code == 0

    def replace() -> None:
        shutil.copy(other / "index.duckdb", index.with_suffix(".new"))
        index.with_suffix(".new").replace(index)

    def damage() -> None:
        index.write_bytes(index.read_bytes()[: 1 << 12])

    for spoil in (rebuild, replace, damage, index.unlink):
        with ThreadPoolExecutor(1) as beside:
            spoilt = beside.submit(spoil)
            assert statuses(site) == [200] * len(PAGES), spoil
            spoilt.result()
        assert statuses(site) == [200] * len(PAGES), spoil


def test_a_session_that_vanishes_is_not_found_and_the_others_stay(site: ServedSite) -> None:
    import_table(site.runs, "gone")
    assert site.ask("/sessions/gone/1").status == 200
    shutil.rmtree(site.runs / "gone")
    assert site.ask("/sessions/gone/1").status == 404
    assert site.ask("/compare?a=gone").status == 422
    assert statuses(site) == [200] * len(PAGES)
    assert CliRunner().invoke(assay, ["index", "--runs", str(site.runs)]).exit_code == 0
    assert "gone" not in site.ask("/api/v1/runs").text


def test_looking_for_changes_outlives_a_session_that_vanished(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("keep", "gone"):
        import_table(runs, name)
    shutil.rmtree(runs / "gone")
    refresh(whole=False, runs=runs)
    assert {row["suite"] for row in browse(runs=runs).rows} == {"keep"}


def test_where_nothing_has_run_yet_pages_say_what_to_do(tmp_path: Path) -> None:
    site = serving(tmp_path / "runs")
    try:
        for path in ("/", "/runs"):
            answer = site.ask(path)
            assert (answer.status, "assay run SUITE" in answer.text) == (200, True)
        for path in ("/api/v1/runs", "/api/v1/runs?trials=true"):
            assert (site.ask(path).json["total"], site.ask(path).json["next"]) == (0, None)
        assert site.ask("/attention").status == 200
        assert site.ask("/api/v1/attention").json["attention"] == []
        import_table(tmp_path / "runs", "first")
        assert "first/1" in site.ask("/").text
    finally:
        site.stop()


@pytest.mark.long
def test_on_a_full_disk_pages_are_read_and_nothing_is_done_unrecorded(tmp_path: Path) -> None:
    runs, suites = tmp_path / "runs", tmp_path / "suites"
    suites.mkdir()
    (suites / "watched.yaml").write_text(WATCHED)
    import_table(runs, "keep")
    options = ("--tokens", str(tokens_file(tmp_path)), "--allow", "run", "--suites", str(suites))
    site = serving(runs, *options)
    try:
        assert site.ask("/runs", who="alice").status == 200
        subprocess.run(
            ["prlimit", f"--pid={site.process.pid}", "--fsize=0:0"], check=True
        )  # like a full disk
        import_table(runs, "more")
        for path in PAGES:
            assert site.ask(path, who="alice").status == 200, path
        body = json.dumps({"suite": "watched.yaml"}).encode()
        refused = site.ask("/api/v1/queue", "POST", who="alice", body=body, Content_Type="application/json")
        assert (refused.status, "space" in refused.text or "large" in refused.text) == (503, True), (
            refused.text
        )
        assert not [*(runs / ".queue").glob("2*")]
    finally:
        site.stop()


def leave_in_the_middle(site: ServedSite, run: str, size_bytes: int) -> None:
    [log] = sorted(site.runs.glob("keep/1/*/attempt-1/logs"))[:1]
    line = b"step 12345678 loss 0.123456789 " + b"x" * 68 + b"\n"
    block = line * 10_000
    with (log / "long.log").open("wb") as file:
        while file.tell() < size_bytes:
            file.write(block)
    path = f"/sessions/keep/1/{log.parents[1].name}/logs/long.log"
    for query in ("?q=nowhere", f"?line={size_bytes // 200}", "?q=loss"):
        leaving = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
        leaving.request("GET", path + query)
        time.sleep(0.2)
        leaving.close()
    begun = time.monotonic()
    assert site.ask("/runs").status == 200
    assert time.monotonic() - begun < 30
    assert site.ask(f"{path}?line={size_bytes // 200}").status == 200
    status = Path(f"/proc/{site.process.pid}/status").read_text()
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    (log / "long.log").unlink()
    assert peak_kib < 500 << 10, "the log is never in memory"


def test_a_browser_that_leaves_in_the_middle_of_a_long_log_holds_nothing_up(site: ServedSite) -> None:
    leave_in_the_middle(site, "keep", 64 << 20)


@pytest.mark.long
def test_a_browser_that_leaves_in_the_middle_of_2_gb_holds_nothing_up(site: ServedSite) -> None:
    leave_in_the_middle(site, "keep", 2 << 30)


def test_a_session_in_which_nothing_has_finished_is_unfinished_and_not_failed(site: ServedSite) -> None:
    import_table(site.runs, "begun")
    for file in site.runs.glob("begun/1/*/attempt-1/run.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "state": "running", "ended_at": None}))
    assert CliRunner().invoke(assay, ["index", "--runs", str(site.runs)]).exit_code == 0
    report = json.loads(site.ask("/api/v1/report?run=begun/1").text)
    assert (report["runs"], report["failed"], report["unfinished"]) == (6, 0, 6)
    assert "failed" not in site.ask("/sessions/begun/1").text.partition("How to reproduce")[0]
    of_begun = [
        one
        for one in json.loads(site.ask("/api/v1/attention").text)["attention"]
        if "begun" in one["session"]
    ]
    assert [(one["kind"], one["words"]) for one in of_begun] == [
        ("unfinished", "6 runs unfinished; no run finished so far.")
    ]
    assert "no run failed" not in site.ask("/attention").text
    shutil.rmtree(site.runs / "begun")


def test_sessions_of_a_machine_whose_clock_is_wrong_are_shown(site: ServedSite) -> None:
    import_table(site.runs, "future")
    for file in site.runs.glob("future/1/*/attempt-1/run.json"):
        plain = json.loads(file.read_text())
        file.write_text(json.dumps({**plain, "created_at": time.time() + 400 * 86400}))
    assert CliRunner().invoke(assay, ["index", "--runs", str(site.runs)]).exit_code == 0
    for path in (*PAGES, "/sessions/future/1", "/live", "/api/v1/runs?since=7d"):
        assert site.ask(path).status == 200, path
    shutil.rmtree(site.runs / "future")


@pytest.mark.long
def test_a_run_that_is_killed_while_it_is_watched_is_reported_as_stopped(site: ServedSite) -> None:
    suite = site.runs.parent / "watched.yaml"
    suite.write_text(WATCHED)
    run = subprocess.Popen(
        [ASSAY, "run", str(suite), "--runs", str(site.runs), "--quiet"], start_new_session=True
    )
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=100)
    try:
        connection.request("GET", "/live/events?session=watched")
        stream = connection.getresponse()

        def seen(words: bytes) -> None:
            while (line := stream.readline()) and words not in line:
                pass
            assert line, words

        seen(b"tiny-1x1-r01")
        run.send_signal(signal.SIGKILL)
        run.wait()
        seen(b"It may have stopped")
        assert site.ask("/live").status == 200
    finally:
        connection.close()
        run.kill()
        run.wait()
        again = subprocess.Popen([ASSAY, "run", str(suite), "--runs", str(site.runs), "--quiet"])
        time.sleep(5)
        again.send_signal(signal.SIGINT)  # takes the job over, and ends it
        again.wait(60)
        assert again.returncode == 130
        assert os.path.exists(site.runs / "watched")  # noqa: PTH110


class _Refusal(BaseHTTPRequestHandler):
    """What a proxy answers for a server that doesn't."""

    def do_GET(self) -> None:
        self.send_error(503)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def refusing(port: int) -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", port), _Refusal) as proxy:
        yield proxy


def says(page: Page, words: str) -> None:
    page.get_by_text(words).first.wait_for(timeout=WAIT_MS)


def no_longer_says(page: Page, words: str) -> None:
    page.get_by_text(words).wait_for(state="detached", timeout=WAIT_MS)


@pytest.mark.long
@pytest.mark.browser
def test_open_pages_survive_that_their_run_and_their_server_are_killed(
    browser: Browser, tmp_path: Path
) -> None:
    runs, suite, gate = tmp_path / "runs", tmp_path / "watched.yaml", tmp_path / "gate"
    waiting = f"until test -e {gate}; do sleep 0.2; done"
    suite.write_text(WATCHED.replace("sleep 120", waiting) + "repeats: 1\n")
    command = [ASSAY, "run", str(suite), "--runs", str(runs), "--quiet"]
    run = subprocess.Popen(command, start_new_session=True)
    first = serving(runs)
    servers = list[ServedSite]()
    first.until("/api/v1/top", lambda answer: answer["running"])
    [session] = (path.name for path in runs.glob("watched/2*"))
    pages = [browser.new_page() for _ in range(2)]
    try:
        for page, path in zip(pages, ("/live", f"/sessions/watched/{session}"), strict=True):
            page.goto(first.url + path, timeout=WAIT_MS)
            page.evaluate("window.loaded = 'once'")
            says(page, "Updates by itself.")
            says(page, "tiny-1x1-r01")
            assert "It may have stopped" not in page.content()
        run.send_signal(signal.SIGKILL)
        run.wait()
        for page in pages:
            says(page, "It may have stopped")
        first.stop(signal.SIGKILL)
        for page in pages:
            says(page, "Not connected since")
        with refusing(first.port) as proxy:
            for _ in range(4):  # a browser gives up on a stream that is answered by an error
                proxy.handle_request()
        for page in pages:
            says(page, "Not connected since")
        servers.append(serving(runs, "--listen", f"127.0.0.1:{first.port}"))
        for page in pages:
            says(page, "Updates by itself.")
            says(page, "It may have stopped")
        again = subprocess.Popen(command)
        for page in pages:
            no_longer_says(page, "It may have stopped")
        gate.touch()
        assert again.wait(WAIT_MS / 1000) == 0
        for page in pages:
            says(page, "Nothing is running.")
            assert page.evaluate("window.loaded") == "once"
    finally:
        for server in servers:
            server.process.kill()
            server.stop()
        gate.touch()
        run.kill()
        for page in pages:
            page.close()


@pytest.mark.long
@pytest.mark.browser
def test_an_open_page_notices_a_server_that_is_silent(browser: Browser, tmp_path: Path) -> None:
    import_table(tmp_path / "runs", "keep")
    site = serving(tmp_path / "runs")
    page = browser.new_page()
    try:
        page.goto(f"{site.url}/live")
        says(page, "Updates by itself.")
        site.process.send_signal(signal.SIGSTOP)  # its connection stays open
        says(page, "Not connected since")
        site.process.send_signal(signal.SIGCONT)
        says(page, "Updates by itself.")
    finally:
        page.close()
        site.process.send_signal(signal.SIGCONT)
        site.stop()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_server_is_stopped_without_a_word_while_a_page_is_followed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], by: signal.Signals
) -> None:
    import_table(tmp_path / "runs", "keep")
    capfd.readouterr()
    site = serving(tmp_path / "runs")
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    connection.request("GET", "/live/events")
    stream = connection.getresponse()
    assert stream.readline()
    site.stop(by)
    assert b"Nothing is running" in stream.read()
    assert "Traceback" not in (said := capfd.readouterr().err), said
    connection.close()


@pytest.mark.parametrize(("by", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_server_whose_handlers_never_answer_is_stopped_in_bounded_time(
    tmp_path: Path, by: signal.Signals, code: int
) -> None:
    runs = tmp_path / "runs"
    import_table(runs, "keep")
    (runs / "index.duckdb").unlink()
    with locked(runs / ".index.lock", "the index"), ExitStack() as waiting:  # every page waits for it
        site = serving(runs)
        for _ in range(30):
            connection = waiting.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=60))
            connection.sendall(b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert site.ask("/healthz").status == 200
        begin = time.monotonic()
        site.stop(by)
        assert time.monotonic() - begin < STOPPED_S + 10
        assert site.process.returncode == code


def test_a_request_that_is_no_http_is_refused_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import_table(tmp_path / "runs", "keep")
    capfd.readouterr()
    site = serving(tmp_path / "runs")
    head = b"POST /doubts HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")
    assert site.ask("/healthz").status == 200
    site.stop()
    assert "Traceback" not in (said := capfd.readouterr().err), said


@pytest.mark.long
def test_pages_are_read_where_no_index_can_be_written_and_none_is_left(tmp_path: Path) -> None:
    runs, own = tmp_path / "runs", Path("/dev/shm")
    import_table(runs, "keep")
    before = {*own.glob("assay-index-*")}
    (runs / "index.duckdb").unlink()
    (runs / ".index.lock").unlink()
    (runs / ".index.lock").mkdir()  # fails whatever would write the index, also for root
    site = serving(runs)
    try:
        assert statuses(site) == [200] * len(PAGES)
        import_table(tmp_path / "other" / "runs", "more")
        (tmp_path / "other" / "runs" / "more").rename(runs / "more")
        assert site.ask("/sessions/more/1").status == 200
        assert "more/1" in site.ask("/runs").text
        assert not (runs / "index.duckdb").exists()
        other = serving(runs)
        assert statuses(other) == [200] * len(PAGES)
        [kept, left] = {*own.glob("assay-index-*")} - before
        other.stop(signal.SIGKILL)
        assert {*own.glob("assay-index-*")} - before == {kept, left}, "nobody could remove it"
        serving(tmp_path / "other" / "runs").stop()
        assert len({*own.glob("assay-index-*")} - before) == 1, "the next server removes what was left"
        assert statuses(site) == [200] * len(PAGES)
    finally:
        site.stop()
    assert {*own.glob("assay-index-*")} == before

"""Who may do what on `assay serve`, and what becomes of runs that were started there, over kills."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from test_report_browser import axe_finds

import counted_frames
from assay.cli import assay
from assay.errors import InputError
from assay.web.tokens import read_tokens
from served_site import TOKENS, ServedSite, ended, serving, tokens_file

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("litestar")
SUITE = """
suite: {name}
benchmarks:
  tiny:
    workload: command
    params:
      argv: ["sh", "-c", "sleep {seconds}; echo speed 5; exit {code}"]
      metrics: {{speed: {{pattern: "speed (?P<value>[0-9]+)", unit: "1/s", better: higher}}}}
repeats: {repeats}
"""
TEMPLATE = """
template: cars
catalog: c.duckdb
labels:
  car: {within: 0..100, required: true}
  fußgänger: {within: 0%..50%}
  camera: {choices: [cam_front_center, cam_front_left], default: cam_front_left}
limit: {within: 1..50, default: 5}
workload: command
params:
  argv: ["sh", "-c", "echo frames $(wc -l < manifest.jsonl)"]
  metrics: {frames: {pattern: "frames (?P<value>[0-9]+)", unit: "1", better: higher}}
"""
RIGHTS = ("--allow", "run", "--allow", "push")


def write_suite(place: Path, name: str, *, seconds: float = 0.1, repeats: int = 1, code: int = 0) -> None:
    text = SUITE.format(name=name, seconds=seconds, repeats=repeats, code=code)
    (place / f"{name}.yaml").write_text(text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("acting")
    (made / "suites").mkdir()
    write_suite(made / "suites", "quick")
    write_suite(made / "suites", "slow", seconds=60)
    write_suite(made / "suites", "steps", seconds=2, repeats=3)
    write_suite(made / "suites", "broken", code=1)
    (made / "suites" / "cars.yaml").write_text(TEMPLATE)
    (made / "suites" / "short.yaml").write_text("suite: short\nworkload: membw\n")
    (made / "suites" / "systems.yaml").write_text("here: {launcher: local}\n")
    counted_frames.catalog(made / "suites" / "c.duckdb", range(40))
    (made / "outside.yaml").write_text((made / "suites" / "quick.yaml").read_text())
    (made / "suites" / "link.yaml").symlink_to(made / "outside.yaml")
    tokens_file(made)
    return made


def start_server(place: Path) -> ServedSite:
    options = ("--tokens", str(place / "tokens"), *RIGHTS, "--suites", str(place / "suites"))
    return serving(place / "runs", *options)


@pytest.fixture(scope="module")
def site(place: Path) -> Iterator[ServedSite]:
    made = start_server(place)
    yield made
    made.stop()


def start(site: ServedSite, suite: str, **more: Any) -> Any:
    body = json.dumps({"suite": suite, **more}).encode()
    return site.ask("/api/v1/queue", "POST", who="alice", body=body, Content_Type="application/json")


def in_state(site: ServedSite, name: str, *states: str) -> Any:
    return site.until(f"/api/v1/queue/{name}", lambda one: one["state"] in states, who="alice")


def record(site: ServedSite) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (site.runs / ".queue" / "audit.jsonl").read_text().splitlines()]


def signed_in(site: ServedSite, who: str) -> str:
    answer = site.form("/login", {"token": TOKENS[who], "next": "/queue"})
    assert (answer.status, answer.headers["location"]) == (303, "/queue")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKENS[who] not in cookie
    return cookie.partition(";")[0]


def test_without_a_token_nothing_is_shown_but_the_form_to_sign_in(site: ServedSite) -> None:
    asked = site.ask("/runs?q=a")
    assert (asked.status, asked.headers["location"]) == (303, "/login?next=%2Fruns%3Fq%3Da")
    assert site.ask("/login").status == 200
    form = site.form("/queue/add", {"suite": "quick.yaml"}, Referer=f"{site.url}/start?suite=quick.yaml")
    assert (form.status, form.headers["location"]) == (303, "/login?next=%2Fstart%3Fsuite%3Dquick.yaml")
    foreign = site.form("/queue/add", {"suite": "quick.yaml"}, Referer="https://evil.example/a")
    assert (foreign.status, foreign.headers["location"]) == (303, "/login?next=%2F")
    refused = site.ask("/api/v1/runs")
    assert (refused.status, refused.headers["content-type"]) == (401, "application/problem+json")
    assert json.loads(refused.text)["status"] == 401
    assert site.ask("/api/v1/runs", Authorization="Bearer wrong").status == 401
    assert site.ask("/api/v1/doubts", who="bob").status == 200
    assert site.form("/login", {"token": "wrong" * 10}).status == 403
    assert site.form("/login", {"token": TOKENS["bob"], "next": "//evil.example"}).headers["location"] == "/"


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"suite":' + b"[" * 60_000, b'{"seed":' + b"9" * 5000])
def test_a_body_that_no_client_sends_is_refused(site: ServedSite, body: bytes) -> None:
    refused = site.ask("/api/v1/queue", "POST", who="alice", body=body, Content_Type="application/json")
    assert refused.status == 400, refused.text


@pytest.mark.parametrize(
    ("suite", "fields", "words"),
    [
        ("quick.yaml", {"system": "here"}, "system: is not for a suite, which would ignore it"),
        ("quick.yaml", {"seed": 0, "labels": {"a": "1"}}, "labels: is not for a suite"),
        ("quick.yaml", {"max_repeats": 5}, "decided"),
        ("quick.yaml", {"failed": True, "new": True}, "choose one"),
        ("quick.yaml", {"sytems": ["here"]}, "sytems"),
        ("cars.yaml", {"systems": ["here"]}, "systems: is not for a template"),
        ("cars.yaml", {"decided": True}, "decided: is not for a template"),
    ],
)
def test_a_field_that_would_be_ignored_is_refused(
    site: ServedSite, suite: str, fields: dict[str, Any], words: str
) -> None:
    refused = start(site, suite, **fields)
    assert refused.status in (400, 422), refused.text
    assert words in refused.text


def test_a_forged_or_changed_cookie_is_no_cookie(site: ServedSite) -> None:
    cookie = signed_in(site, "bob")
    assert site.ask("/doubts", Cookie=cookie).status == 200
    assert site.ask("/doubts", Cookie=cookie.replace(b"bob".hex(), b"alice".hex())).status == 303
    end = re.search(r"\.(\d+)\.", cookie)
    assert end is not None
    assert site.ask("/doubts", Cookie=cookie.replace(end[1], "9999999999")).status == 303


@pytest.mark.long
def test_who_signs_out_is_signed_out_on_every_server_and_no_other_site_can_do_it(
    site: ServedSite, place: Path
) -> None:
    cookie, stays = signed_in(site, "bob"), signed_in(site, "bob")
    foreign = {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"}
    assert site.ask("/logout", "POST", Cookie=cookie, **foreign).status == 403
    assert site.ask("/doubts", Cookie=cookie).status == 200
    assert site.ask("/logout", "POST", Cookie=cookie).status == 303
    assert site.ask("/doubts", Cookie=cookie).status == 303
    restarted = start_server(place)
    try:
        assert restarted.ask("/doubts", Cookie=cookie).status == 303
        assert restarted.ask("/doubts", Cookie=stays).status == 200
        assert restarted.ask("/logout", "POST", Cookie=stays).status == 303
    finally:
        restarted.stop()
    assert site.ask("/doubts", Cookie=stays).status == 303


def test_refused_attempts_are_in_the_record(site: ServedSite) -> None:
    before = len(record(site))
    cookie = signed_in(site, "bob")
    assert site.form("/queue/add", {"suite": "quick.yaml"}, who="carol").status == 403
    assert site.form("/queue/add", {"suite": "quick.yaml"}, Cookie=cookie).status == 403
    refused = site.form("/login", {"token": TOKENS["bob"]}, Sec_Fetch_Site="cross-site")
    assert (refused.status, "another site" in refused.text) == (403, True)
    assert [(one["who"], one["what"], one["result"]) for one in record(site)[before + 1 :]] == [
        ("carol", "/queue/add", "refused: not allowed"),
        ("bob", "/queue/add", "refused: not allowed"),
        ("", "/login", "refused: from another site"),
    ]


def test_a_reader_and_a_pusher_start_nothing(site: ServedSite) -> None:
    for who in ("bob", "carol"):
        body = json.dumps({"suite": "quick.yaml"}).encode()
        kind = {"Content_Type": "application/json"}
        assert site.ask("/api/v1/queue", "POST", who=who, body=body, **kind).status == 403
        assert site.ask("/start", who=who).status == 403
        assert site.ask("/audit", who=who).status == 403
    assert site.ask("/api/v1/push", "POST", who="bob", body=b"{}").status == 403


def test_a_form_needs_its_own_word_and_a_page_of_this_site(site: ServedSite) -> None:
    cookie = signed_in(site, "alice")
    page = site.ask("/start?suite=quick.yaml", Cookie=cookie)
    word = re.search(r'name="form_word" value="(\w+)"', page.text)
    assert word is not None
    fields = {"suite": "quick.yaml", "form_word": word[1]}
    assert site.form("/queue/add", {**fields, "form_word": ""}, Cookie=cookie).status == 403
    assert site.form("/queue/add", fields, Cookie=cookie, Origin="https://evil.example").status == 403
    assert site.form("/queue/add", fields, Cookie=cookie, Sec_Fetch_Site="cross-site").status == 403
    body = json.dumps({"suite": "quick.yaml"}).encode()
    as_json = {"Content_Type": "application/json", "Cookie": cookie}
    assert site.ask("/api/v1/queue", "POST", body=body, **as_json).status == 403
    sent = site.form("/queue/add", fields, Cookie=cookie)
    assert sent.status == 303
    name = sent.headers["location"].rpartition("/")[2]
    assert in_state(site, name, "ended")["outcome"]["answer"] == "good"
    done = [(one["what"], one["result"]) for one in record(site) if one["who"] == "alice"]
    assert ("start", "requested") in done
    assert ("start", "done") in done
    assert TOKENS["alice"] not in (site.runs / ".queue" / "audit.jsonl").read_text()
    page = site.ask(f"/queue/{name}", Cookie=cookie).text
    assert "quick/" in page
    assert "Repeat what failed" not in page, "nothing did"
    assert "start" in site.ask("/audit", Cookie=cookie).text


@pytest.mark.parametrize(
    "name", ["../outside.yaml", "link.yaml", "/etc/passwd", "none.yaml", "quick.yaml\0", ""]
)
def test_only_suites_of_the_directory_can_be_started(site: ServedSite, name: str) -> None:
    assert start(site, name).status == 422


def test_both_forms_of_a_suite_and_templates_are_offered_and_nothing_else(site: ServedSite) -> None:
    offered = site.ask("/start", Cookie=signed_in(site, "alice")).text
    assert all(f"suite={name}.yaml" in offered for name in ("quick", "short", "cars"))
    assert "suite=systems.yaml" not in offered


def test_what_is_too_long_is_refused(site: ServedSite) -> None:
    assert site.ask("/api/v1/queue", "POST", who="alice", body=b"x" * (65 << 10)).status == 413
    assert site.ask("/nothing", "DELETE", who="alice").status == 405


@pytest.mark.long
def test_several_wait_in_order_and_one_is_stopped_before_and_one_while_it_runs(site: ServedSite) -> None:
    first, second, third = (start(site, f"{name}.yaml").json["id"] for name in ("slow", "slow", "quick"))
    in_state(site, first, "running")
    site.until(f"/api/v1/queue/{first}", lambda one: one["session"], who="alice")
    for name in (second, first):
        assert site.ask(f"/api/v1/queue/{name}/stop", "POST", who="alice").status == 200
    assert in_state(site, first, "stopped")["outcome"]["words"].startswith("stopped on request")
    assert in_state(site, second, "stopped")["starts"] == []
    assert in_state(site, third, "ended")["outcome"]["answer"] == "good"


def test_failed_trials_are_repeated_in_their_session(site: ServedSite) -> None:
    name = start(site, "broken.yaml").json["id"]
    session = in_state(site, name, "ended")["session"]
    cookie = signed_in(site, "alice")
    word = re.search(r'name="form_word" value="(\w+)"', site.ask(f"/queue/{name}", Cookie=cookie).text)
    assert word is not None
    sent = site.form(f"/queue/{name}/repeat", {"form_word": word[1]}, Cookie=cookie)
    again = in_state(site, sent.headers["location"].rpartition("/")[2], "ended")
    assert again["session"] == session
    assert again["outcome"]["answer"] == "worse"
    assert len([*(site.runs / session).glob("*/attempt-2")]) == 1


@pytest.mark.long
def test_a_job_is_chosen_by_labels_in_a_form_shown_and_started(site: ServedSite) -> None:
    cookie = signed_in(site, "alice")
    form = site.ask("/start?suite=cars.yaml", Cookie=cookie)
    assert 'name="label.fußgänger"' in form.text
    wrong = site.ask("/start?suite=cars.yaml&label.car=10..900", Cookie=cookie)
    assert (wrong.status, "0..100" in wrong.text) == (422, True)
    shown = site.ask("/start?suite=cars.yaml&label.car=10..19", Cookie=cookie)
    assert "5 of 40 frames" in shown.text
    fields = dict(
        re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', shown.text.partition("/queue/add")[2])
    )
    assert fields["label.car"] == "10..19"
    sent = site.form("/queue/add", fields, Cookie=cookie)
    assert sent.status == 303, sent.text
    one = in_state(site, sent.headers["location"].rpartition("/")[2], "ended")
    assert one["outcome"]["answer"] == "good"
    [manifest] = site.runs.glob(f"{one['session']}/*/attempt-1/inputs/manifest.jsonl")
    assert len(manifest.read_text().splitlines()) == 6


@pytest.mark.browser
def test_in_a_browser_an_operator_signs_in_and_starts_a_suite(browser: Browser, site: ServedSite) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.goto(f"{site.url}/start?suite=quick.yaml")
    page.get_by_label("Token").fill(TOKENS["alice"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Put it in the queue").click()
    page.get_by_text("Asked for by").wait_for()
    assert axe_finds(page) == []
    page.goto(f"{site.url}/start?suite=quick.yaml")
    assert axe_finds(page) == []
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    page.close()
    assert said == []


@pytest.mark.long
@pytest.mark.browser
def test_an_open_page_says_that_its_sign_in_ended_and_goes_on_after_the_next(
    browser: Browser, site: ServedSite
) -> None:
    def sign_in(page: Page) -> None:
        page.get_by_label("Token").fill(TOKENS["alice"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Updates by itself.").wait_for()

    context = browser.new_context()
    page, other = context.new_page(), context.new_page()
    page.goto(f"{site.url}/live")
    sign_in(page)
    other.goto(f"{site.url}/doubts")
    other.get_by_role("button", name="Sign out").click()
    page.get_by_text("Not signed in since").wait_for(timeout=60_000)
    assert axe_finds(page) == []
    page.get_by_role("link", name="Sign in again").click()
    sign_in(page)
    assert page.url == f"{site.url}/live"
    context.close()


@pytest.mark.long
def test_a_killed_server_and_a_killed_run_lose_nothing(place: Path) -> None:
    runs = place / "killed"
    options = ("--tokens", str(place / "tokens"), "--allow", "run", "--suites", str(place / "suites"))
    before = serving(runs, *options)
    name = start(before, "steps.yaml").json["id"]
    in_state(before, name, "running")
    before.stop(signal.SIGKILL)
    pid = int(json.loads((runs / ".queue" / name / "lock").read_text())["pid"])
    assert not ended(pid), "the run outlives the server"
    os.kill(pid, signal.SIGKILL)
    after = serving(runs, *options)
    try:
        one = in_state(after, name, "ended")
        assert one["outcome"]["answer"] == "good"
        assert len(one["starts"]) == 2
        assert len([*runs.glob("steps/*/session.json")]) == 1
    finally:
        after.stop()


@pytest.mark.long
def test_two_servers_of_one_directory_run_each_request_once(site: ServedSite, place: Path) -> None:
    other = start_server(place)
    try:
        names = [start(one, "quick.yaml", new=True).json["id"] for one in (site, other, site)]
        for name in names:
            one = in_state(other, name, "ended")
            assert (one["outcome"]["answer"], len(one["starts"])) == ("good", 1)
        assert len({in_state(site, name, "ended")["session"] for name in names}) == 3
    finally:
        other.stop()


def test_a_token_file_that_others_can_read_or_that_is_wrong_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("alice operator short\nbob king " + "x" * 40 + "\nalice\n")
    file.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        read_tokens(file)
    file.chmod(0o600)
    with pytest.raises(InputError) as raised:
        read_tokens(file)
    assert [problem.where.rpartition(":")[2] for problem in raised.value.problems] == ["1", "2", "3"]
    assert "short" not in str(raised.value).replace("at least", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--allow", "push"], "--tokens"),
        (["--tokens", "TOKENS", "--allow", "run"], "--suites"),
        (["--tokens", "TOKENS", "--listen", "0.0.0.0:0"], "unencrypted"),
        (["--user-header", "X-Forwarded-User", "--listen", "0.0.0.0:0"], "listen on 127.0.0.1"),
        (["--tls-cert", "TOKENS"], "belong together"),
        (["--tls-cert", "TOKENS", "--tls-key", "TOKENS"], "not a certificate"),
    ],
)
def test_what_would_be_unsafe_is_refused_at_the_start(place: Path, options: list[str], words: str) -> None:
    given = [option.replace("TOKENS", str(place / "tokens")) for option in options]
    done = CliRunner().invoke(assay, ["serve", *given, "--runs", str(place / "none")])
    assert words in f"{done.output}{done.exception}"
    assert done.exit_code != 0


def test_a_proxy_names_who_asks_and_who_of_them_acts(place: Path) -> None:
    proxied = serving(
        place / "proxied", "--user-header", "X-Forwarded-User", "--operator", "dora", "--allow", "run",
        "--suites", str(place / "suites"), "--https-proxy",
    )  # fmt: skip
    try:
        assert proxied.ask("/api/v1/runs").status == 401
        assert proxied.ask("/doubts", X_Forwarded_User="erik").status == 200
        assert proxied.ask("/start", X_Forwarded_User="erik").status == 403
        page = proxied.ask("/start?suite=quick.yaml", X_Forwarded_User="dora")
        assert page.status == 200
        assert proxied.form("/queue/add", {"suite": "quick.yaml"}, X_Forwarded_User="dora").status == 403
    finally:
        proxied.stop()

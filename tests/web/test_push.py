"""Sessions sent to a server, and commands answered by it: the same as here, and nothing hostile gets in."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from assay.cli import assay, remote_commands
from assay.errors import EXIT_INPUT, HostError, InputError
from assay.questions import push as push_question
from assay.remote import AssayServer
from assay.rundir import receiving
from assay.rundir.receiving import manifest_of, parts_of, text_of
from assay.rundir.session import Session
from command_line import assay as typed
from conftest import long_but
from http_servers import served
from served_site import TOKENS, ServedSite, serving, tokens_file

pytest.importorskip("litestar")
TABLE = "system,benchmark,metric,value,unit,better,run\n" + "".join(
    f"{system},train,throughput,{value},images/s,higher,{run}\n"
    for system, values in (("a", (100, 101, 102)), ("b", (83, 84, 85)))
    for run, value in enumerate(values)
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pushing")
    tokens_file(made)
    for name, token in TOKENS.items():
        (made / name).write_text(token)
        (made / name).chmod(0o600)
    for name in ("first", "second", "third", "fourth", "fifth"):
        (made / f"{name}.csv").write_text(TABLE)
        done = CliRunner().invoke(assay, ["import", str(made / f"{name}.csv"), "--runs", str(made / "here")])
        assert done.exit_code == 0, done.output
    return made


@pytest.fixture(scope="module")
def site(place: Path) -> Iterator[ServedSite]:
    made = serving(place / "there", "--tokens", str(place / "tokens"), "--allow", "push")
    yield made
    made.stop()


def push(site: ServedSite, place: Path, *names: str, who: str = "carol") -> Result:
    words = ["push", site.url, *names, "--token-file", str(place / who), "--json"]
    return CliRunner().invoke(assay, [*words, "--runs", str(place / "here")])


def announced(site: ServedSite, document: Any) -> Any:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)  # as a client writes it
    return site.ask("/api/v1/push", "POST", who="carol", body=text.encode())


def session(place: Path, suite: str) -> Session:
    return Session(place / "here" / suite / "1")


def plain(place: Path, suite: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(text_of(manifest_of(session(place, suite))))
    return made


def test_a_pushed_session_is_the_same_there_and_is_sent_once(site: ServedSite, place: Path) -> None:
    [one] = json.loads(push(site, place, "first").output)["sessions"]
    assert one["added"]
    assert one["bytes"] > 0
    [again] = json.loads(push(site, place, "first/1").output)["sessions"]
    assert (again["added"], again["bytes"]) == (False, 0)
    lines = [json.loads(line) for line in (site.runs / ".queue" / "audit.jsonl").read_text().splitlines()]
    assert {(line["what"], line["session"]) for line in lines} == {
        ("push", "first/1"),
        ("push complete", "first/1"),
    }
    here = CliRunner().invoke(assay, ["compare", "first", "--json", "--runs", str(place / "here")])
    there = site.ask("/api/v1/compare?a=first", who="bob")
    assert there.json == json.loads(here.output)


def test_a_push_continues_where_it_was_stopped(site: ServedSite, place: Path) -> None:
    content = b"".join(parts_of(session(place, "second"), manifest_of(session(place, "second")), 0))
    state = announced(site, plain(place, "second")).json
    half = len(content) // 2
    put = f"/api/v1/push/{state['id']}?at="
    assert site.ask(f"{put}0", "PUT", who="carol", body=content[:half]).json == {"offset": half}
    assert site.ask(f"{put}0", "PUT", who="carol", body=content[:half]).status == 409
    assert site.ask(f"/api/v1/push/{state['id']}/complete", "POST", who="carol").status == 409
    [one] = json.loads(push(site, place, "second").output)["sessions"]
    assert (one["added"], one["bytes"]) == (True, len(content) - half)
    assert list((site.runs / ".push").iterdir()) == []


@contextmanager
def cut_after(port: int, most_bytes: int) -> Iterator[int]:
    """A port that leads to the server, until so many bytes were sent to it: then every connection breaks."""
    left = most_bytes

    def answers(server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)

    def relay(client: socket.socket) -> None:
        nonlocal left
        with client, socket.create_connection(("127.0.0.1", port)) as server, suppress(OSError):
            Thread(target=answers, args=[server, client], daemon=True).start()
            while left > 0 and (data := client.recv(512)):
                server.sendall(data[:left])
                left -= len(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                relay(listening.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("percent", long_but(1, [70, 10, 40, 90]))
def test_a_push_that_is_cut_anywhere_is_completed_by_the_same_command(
    site: ServedSite, place: Path, monkeypatch: pytest.MonkeyPatch, percent: int
) -> None:
    name = f"cut-{percent}"
    (place / f"{name}.csv").write_text(TABLE)
    words = ["import", str(place / f"{name}.csv"), "--runs", str(place / "here")]
    assert CliRunner().invoke(assay, words).exit_code == 0
    size = manifest_of(session(place, name)).bytes
    monkeypatch.setattr(push_question, "PAUSE_S", 0.0)
    with cut_after(site.port, size * percent // 100) as port:
        broken = push(replace(site, port=port), place, name)
    assert isinstance(broken.exception, HostError), broken.output
    assert not (site.runs / name).exists()
    [one] = json.loads(push(site, place, name).output)["sessions"]
    assert (one["added"], one["bytes"] <= size) == (True, True)
    assert site.ask(f"/api/v1/compare?a={name}", who="bob").json["comparisons"]


def test_a_session_that_somebody_else_sent_meanwhile_is_there(
    site: ServedSite, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's push ends between the announcement of this one and its content."""
    send = push_question._send_content

    def after_another(*arguments: Any) -> Any:
        send(*arguments)
        return send(*arguments)

    monkeypatch.setattr(push_question, "_send_content", after_another)
    [one] = json.loads(push(site, place, "fifth").output)["sessions"]
    assert (one["added"], one["bytes"]) == (False, 0)


def test_content_that_arrives_damaged_is_refused_and_removed(site: ServedSite, place: Path) -> None:
    manifest = manifest_of(session(place, "third"))
    content = b"".join(parts_of(session(place, "third"), manifest, 0))
    state = announced(site, plain(place, "third")).json
    damaged = content[:-2] + b"xx"
    assert site.ask(f"/api/v1/push/{state['id']}?at=0", "PUT", who="carol", body=damaged).status == 200
    refused = site.ask(f"/api/v1/push/{state['id']}/complete", "POST", who="carol")
    assert (refused.status, "damaged" in refused.text) == (422, True)
    assert not (site.runs / "third").exists()
    assert list((site.runs / ".push").iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"session": "../there"},
        {"session": "third"},
        {"session": "third/.."},
        {"files": []},
        {"files": [{"name": "../../x", "bytes": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "/etc/passwd", "bytes": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "t/attempt-1/outputs/../../../x", "bytes": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "session.json", "bytes": 1 << 50, "sha256": "0" * 64}]},
        {"files": [{"name": "session.json", "bytes": -1, "sha256": "0" * 64}]},
        {"files": [{"name": "session.json", "bytes": 1, "sha256": "0"}]},
        {"files": [{"name": "session.json", "bytes": 1, "sha256": "0" * 64}] * 2},
        {"files": 7},
    ],
)
def test_a_manifest_that_is_no_sessions_is_refused(
    site: ServedSite, place: Path, change: dict[str, Any]
) -> None:
    refused = announced(site, {**plain(place, "third"), **change})
    assert refused.status == 422, refused.text
    assert not (site.runs / "third").exists()


def test_a_manifest_that_names_another_session_than_its_content_is_refused(
    site: ServedSite, place: Path
) -> None:
    document = {**plain(place, "third"), "session": "elsewhere/1"}
    content = b"".join(parts_of(session(place, "third"), manifest_of(session(place, "third")), 0))
    state = announced(site, document).json
    site.ask(f"/api/v1/push/{state['id']}?at=0", "PUT", who="carol", body=content)
    refused = site.ask(f"/api/v1/push/{state['id']}/complete", "POST", who="carol")
    assert refused.status == 422, refused.text
    assert not (site.runs / "elsewhere").exists()
    assert not (site.runs / "third").exists()


def test_a_session_that_is_there_with_other_content_is_not_replaced(site: ServedSite, place: Path) -> None:
    push(site, place, "first")
    refused = announced(site, {**plain(place, "first"), "content": "0" * 16})
    assert (refused.status, "other content" in refused.text) == (422, True)


def test_without_space_nothing_is_begun(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(receiving, "SPACE_FACTOR", 1 << 60)
    with pytest.raises(HostError, match="no space"):
        receiving.announce(text_of(manifest_of(session(place, "fourth"))), tmp_path)
    assert list((tmp_path / ".push").iterdir()) == []


def test_a_push_that_ends_in_between_names_what_the_server_has(
    site: ServedSite, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = push_question._send

    def full_after_one(server: Any, sent: Session, *rest: Any) -> Any:
        if sent.id != "first/1":
            raise HostError("no space: receiving this session needs 2 GB, 1 GB are free")
        return send(server, sent, *rest)

    monkeypatch.setattr(push_question, "_send", full_after_one)
    words = ["push", site.url, "first", "second", "--token-file", str(place / "carol")]
    with pytest.raises(HostError, match=r"1 GB are free; the server has of this push: first/1$"):
        CliRunner().invoke(assay, [*words, "--runs", str(place / "here")], catch_exceptions=False)


def test_who_may_not_push_or_has_no_token_is_told_what_to_do(site: ServedSite, place: Path) -> None:
    with pytest.raises(InputError, match="needs the right to push"):
        raise push(site, place, "third", who="bob").exception or AssertionError
    words = ["push", site.url, "third", "--runs", str(place / "here")]
    with pytest.raises(InputError, match="--token-file"):
        raise CliRunner().invoke(assay, words).exception or AssertionError
    with pytest.raises(InputError, match="isn't encrypted"):
        AssayServer("http://assay.example.com", token="x" * 40)


def elsewhere(site: ServedSite, place: Path, *words: str) -> Result:
    options = ["--server", site.url, "--token-file", str(place / "bob")]
    return CliRunner().invoke(assay, [*options, *words])


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "first", "--json"),
        pytest.param(("gate", "first:b", "--baseline", "first:a", "--json"), marks=pytest.mark.long),
        pytest.param(("show",), marks=pytest.mark.long),
        pytest.param(("explain", "drift", "--json"), marks=pytest.mark.long),
        ("compare", "frist"),
    ],
)
def test_a_command_has_the_same_answer_from_elsewhere(
    site: ServedSite, place: Path, words: tuple[str, ...]
) -> None:
    push(site, place, "first")
    there = elsewhere(site, place, *words)
    runs = [] if words[0] == "explain" else ["--runs", str(site.runs)]
    here = CliRunner().invoke(assay, [*words, *runs])
    if here.exception is not None and not isinstance(here.exception, SystemExit):
        assert (there.exit_code, str(here.exception) in there.stderr) == (here.exception.exit_code, True)  # type: ignore[attr-defined]
    else:
        assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "suite.yaml"), "works only where the runs are"),
        (("gate", "first", "--baseline", "first", "--junit", "x.xml"), "--junit names a file"),
        (("compare", "first", "--runs", "/"), "--runs names a file"),
        (("compare", "--nothing"), "No such option"),
    ],
)
def test_what_a_server_does_not_answer_is_refused_on_both_sides(
    site: ServedSite, place: Path, words: tuple[str, ...], said: str
) -> None:
    refused = elsewhere(site, place, *words)
    assert refused.exit_code == 2
    assert said in refused.output
    query = "&".join(f"word={word}" for word in words)
    there = site.ask(f"/api/v1/command?{query}", who="bob", Assay_Client="1")
    assert there.status == 422
    assert said in json.loads(there.text)["detail"]


def test_the_usage_of_a_command_that_a_server_answers_has_its_arguments(
    site: ServedSite, place: Path
) -> None:
    assert "Usage: assay compare [OPTIONS] A [B]" in elsewhere(site, place, "compare").output


@pytest.mark.long
def test_an_answer_does_not_say_where_the_runs_are_on_the_server(site: ServedSite, place: Path) -> None:
    push(site, place, "first")
    for words in (("watch",), ("compare", str(site.runs.parent / "x"))):
        assert f"{site.runs.parent}/" not in elsewhere(site, place, *words).output.replace(words[-1], "")
    assert "Nothing is running in" in elsewhere(site, place, "watch").output


def test_no_word_of_an_answered_command_opens_a_file_that_it_names(place: Path) -> None:
    secret = place / "secret.yaml"
    secret.write_text("system,benchmark,metric,value,unit\nmarker-of-the-secret,b,m,1,s\n")
    opened: list[str] = []
    watched = [True]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watched[0] and event == "open" and str(arguments[0]).endswith(secret.name):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)  # it stays for ever, so it is switched off below
    for name in remote_commands.ANSWERED:
        command = assay.get_command(click.Context(assay), name)
        assert command is not None
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        texts = [
            o
            for o in command.params
            if isinstance(o, click.Option) and not o.is_flag and o.name != "runs_dir"
        ]
        for word in (str(secret), f"@{secret}", str(place)):
            tried = [[word] * len(arguments)]
            tried += [["first"] * len(arguments) + [option.opts[0], word] for option in texts]
            for words in tried:
                if remote_commands.refusal([name, *words]):
                    continue
                runs = ["--runs", str(place / "here")] if name != "explain" else []
                said = CliRunner().invoke(assay, [name, *words, *runs])
                assert "marker-of-the-secret" not in f"{said.output}{said.exception}", (name, words)
    watched[0] = False
    assert opened == []


@pytest.mark.long
def test_by_https_only_who_knows_the_certificate_asks(place: Path) -> None:
    certificate, key = place / "cert.pem", place / "key.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *names], check=True, capture_output=True)
    options = ("--tokens", str(place / "tokens"), "--tls-cert", str(certificate), "--tls-key", str(key))
    secure = serving(place / "here", *options)
    try:
        url = f"https://127.0.0.1:{secure.port}"
        words = ["--server", url, "--token-file", str(place / "bob")]
        listed = CliRunner().invoke(assay, [*words, "--ca-file", str(certificate), "show"])
        assert (listed.exit_code, "fourth" in listed.output) == (0, True), listed.output
        with pytest.raises(HostError, match="certificate"):
            raise CliRunner().invoke(assay, [*words, "show"]).exception or AssertionError
        token = AssayServer(url, TOKENS["bob"], certificate)
        assert token.ask("GET", "/api/v1/doubts").status == 200
    finally:
        secure.stop()


def test_a_page_of_another_site_can_not_make_a_browser_ask_for_a_command(site: ServedSite) -> None:
    assert site.ask("/api/v1/command?word=list", who="bob").status == 403


FOREIGN = (
    b"{}", b"[]", b"1", b"<html>", b"[" * 100_000, b'{"output":null,"error":null,"exit_code":null}',
    b'{"output":"","error":"","exit_code":1e999}', b'{"output":"","error":"","exit_code":-1}',
    b'{"output":"","error":"","exit_code":300}', b'{"id":"x","offset":-5,"present":true}',
    b'{"id":5,"offset":"a","present":"no"}', b'{"id":"' + b"0" * 64 + b'","offset":1,"present":true}',
)  # fmt: skip


@pytest.mark.parametrize("body", FOREIGN)
@pytest.mark.parametrize("word", ["show", "push"])
def test_what_is_not_assay_is_named_as_such(place: Path, body: bytes, word: str) -> None:
    class Foreign(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with served(server := HTTPServer(("127.0.0.1", 0), Foreign)):
        url = f"http://127.0.0.1:{server.server_port}"
        runs = str(place / "here")
        done = typed(place, *(["--server", url, "show"] if word == "show" else [word, url, "--runs", runs]))
    assert done.returncode == EXIT_INPUT
    assert "this is not an answer of Assay" in done.stderr


def test_a_request_that_no_client_sends_is_refused_without_a_traceback(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site = serving(place / "there", "--tokens", str(place / "tokens"), "--allow", "push")
    try:
        assert site.ask("/runs", Host="localhost:99999999").status == 421
        for path in ("/api/v1/push", "/api/v1/queue"):
            deep = site.ask(path, "POST", who="carol", body=b"[" * 60_000, Content_Type="application/json")
            assert deep.status in (400, 403, 404, 405, 422), deep.text
    finally:
        site.stop()
    assert "Traceback" not in capfd.readouterr().err

"""Clients that keep a server waiting keep nobody else out."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from assay.testing.launchers import eventually
from assay.web.guard import BoundedConnection
from assay.web.live import Watchers
from assay.web.server import streaming_server
from assay.web.site import Site

HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-a: "
HALF_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"


async def application(scope: object, receive: object, send: object) -> None:
    """Answers when the request is complete."""
    while (await receive()).get("more_body"):  # type: ignore[operator]
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            application, http=BoundedConnection, limit_concurrency=20, lifespan="off", log_level="critical"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = server.force_exit = True
        thread.join()


def ask(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    status = connection.getresponse().status
    connection.close()
    return status


def trickle(slow: socket.socket) -> None:
    for byte in HALF + b"a" * 1000:
        slow.sendall(bytes([byte]))
        time.sleep(0.02)


@pytest.mark.parametrize("half", [HALF, HALF_BODY, b""], ids=["head", "body", "nothing"])
def test_whoever_sends_half_of_many_requests_keeps_nobody_out(port: int, half: bytes) -> None:
    held = []
    for _ in range(60):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(half)
        held.append(one)
    give_up = time.monotonic() + 10
    while ask(port) != 200 and time.monotonic() < give_up:  # the last of the ended requests may still count
        time.sleep(0.05)
    assert [ask(port) for _ in range(5)] == [200] * 5
    for one in held:
        one.close()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["first", "next"])
def test_a_request_that_never_ends_is_ended(port: int, first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.web.guard.HEAD_S", 0.5)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(first)
        while first and not slow.recv(1000).endswith(b"ok"):
            pass
        with pytest.raises(ConnectionError):
            trickle(slow)
    assert ask(port) == 200


def test_answers_that_a_stopped_server_leaves_unfinished_are_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        await asyncio.sleep(60)

    config = uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1)
    server = streaming_server(config, Watchers(Site(tmp_path)))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=[[listening]], daemon=True)
        thread.start()
        client = socket.create_connection(listening.getsockname())
        client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert eventually(lambda: bool(server.server_state.tasks))
        server.should_exit = True
        thread.join()
        client.close()
    said = capfd.readouterr().err
    assert "Cancel 1 running task" in said
    assert "Traceback" not in said

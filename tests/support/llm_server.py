"""A server of OpenAI's completions API that sends its tokens when it was told to, or breaks as told."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from http_servers import served


@dataclass(frozen=True)
class Answers:
    """How a request is answered: `max_tokens` pieces, the first after `first_s`, then one each `gap_s`.

    together     pieces that are sent as one
    break_after  pieces after which the connection is cut, in the middle of a chunk
    stop_after   pieces after which the stream ends as if it were whole, without a reason
    reset_after  pieces after which the connection is reset; before any, without a status either
    error_after  pieces after which the stream holds the error that the server `says`
    cut_to       fewer tokens than were asked for, with the reason `stop`
    """

    first_s: float = 0.0
    gap_s: float = 0.0
    usage: bool = True
    done: bool = True
    chunked: bool = True
    together: int = 1
    status: int = 200
    says: str = ""
    kind: str = "text/event-stream"
    break_after: int | None = None
    stop_after: int | None = None
    reset_after: int | None = None
    error_after: int | None = None
    cut_to: int | None = None


Plan = Callable[[int], Answers]


@dataclass
class Asked:
    """A request as it came, and when it came and each of its pieces went, on the monotonic clock."""

    name: str
    key: str | None
    body: dict[str, Any]
    came: float
    went: list[float] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, plan: Answers | Plan, one_at_a_time: bool, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.plan: Plan = plan if callable(plan) else lambda _number: plan
        self.one_at_a_time = one_at_a_time
        self.turn = threading.Lock()
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.scheme == "http" else "localhost"  # as its certificate has it
        return f"{self.scheme}://{host}:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing on the tests' output."""

    def do_POST(self) -> None:
        came = time.perf_counter()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, key = self.headers["X-Request-Id"], self.headers["Authorization"]
        asked = Asked(name, key, body, came)
        self.close_connection = True
        if self.server.one_at_a_time:
            with self.server.turn:
                self._answer(asked)
        else:
            self._answer(asked)

    def _answer(self, asked: Asked) -> None:
        self.server.asked.append(asked)
        self.how = self.server.plan(len(self.server.asked) - 1)
        if self.how.reset_after == 0:
            self._reset()
            return
        streams = self.how.status == 200 and self.how.kind == "text/event-stream"
        self.send_response(self.how.status)
        self.send_header("Content-Type", self.how.kind)
        if not streams:
            self.send_header("Content-Length", str(len(self.how.says)))
        elif self.how.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not streams:
            self.wfile.write(self.how.says.encode())
        elif self._tokens(asked):
            self._part(b"")

    def _tokens(self, asked: Asked) -> bool:
        """Send them; whether the stream is to end as one that is whole."""
        how, chat = self.how, "messages" in asked.body
        tokens = asked.body["max_tokens"] if how.cut_to is None else how.cut_to
        self._part(b": a comment, which is no event\n\n")
        if chat:
            self._event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        due = time.perf_counter() + how.first_s
        for piece in range(0, tokens, how.together):
            time.sleep(max(0.0, due - time.perf_counter()))
            due += how.gap_s * how.together
            if piece == how.break_after:
                self.wfile.write(b"40\r\ndata: {" if how.chunked else b"data: {")
                return False
            if piece == how.stop_after:
                return True
            if piece == how.reset_after:
                self._reset()
                return False
            if piece == how.error_after:
                self._event({"error": {"message": how.says}})
            text = "word " * min(how.together, tokens - piece)
            asked.went.append(time.perf_counter())
            self._event({"choices": [{"delta": {"content": text}} if chat else {"text": text}]})
        self._end(asked, tokens)
        return True

    def _end(self, asked: Asked, tokens: int) -> None:
        said = asked.body.get("prompt") or asked.body["messages"][0]["content"]
        usage = {"prompt_tokens": 2 * len(said.split()) + 7, "completion_tokens": tokens}
        reason = "length" if self.how.cut_to is None else "stop"
        self._event({"model": "served", "choices": [{"text": "", "finish_reason": reason}]})
        if self.how.usage:
            self._event({"choices": [], "usage": usage})
        if self.how.done:
            self._part(b"data: [DONE]\n\n")

    def _reset(self) -> None:
        """Close without the usual farewell: the other side sees a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _event(self, event: dict[str, Any]) -> None:
        self._part(f"data: {json.dumps(event)}\n\n".encode())

    def _part(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.how.chunked else data)


@contextmanager
def serving(
    plan: Answers | Plan,
    *,
    one_at_a_time: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[_Server]:
    """Serve on a port of its own; a plan may answer each request in its own way, from 0."""
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
    server = _Server(plan, one_at_a_time, tls)
    with served(server):
        yield server

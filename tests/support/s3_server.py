"""A real S3 server for tests, versitygw, and a proxy before it that fails some of the requests."""

from __future__ import annotations

import http.client
import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from http_servers import served

KEY, SECRET = "assaytestkey", "assay-test-secret-8f31c2d7"
BUILD = "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"


def program() -> str | None:
    """$ASSAY_VERSITYGW, or where `.ci/run` builds it, or on the path; None if there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay-tests" / "versitygw"
    own = os.environ.get("ASSAY_VERSITYGW") or (str(cache) if cache.is_file() else None)
    return own or shutil.which("versitygw")


@dataclass(frozen=True)
class S3Server:
    """A running server: its address, and the directory whose subdirectories are its buckets."""

    url: str
    root: Path

    def environment(self, url: str = "", secret: str = SECRET) -> Mapping[str, str]:
        """The AWS_* variables of a client; nothing of this machine's own configuration."""
        return {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }


@contextmanager
def server(folder: Path) -> Iterator[S3Server]:
    """A server of the buckets in a folder, until the end of the block."""
    binary = program()
    assert binary is not None
    port = free_port()
    with (folder.parent / "versitygw.log").open("wb") as log:
        started = subprocess.Popen(
            [binary, "--port", f"127.0.0.1:{port}", "posix", str(folder)],
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + 20
            while not listens(port):
                assert started.poll() is None, (folder.parent / "versitygw.log").read_text()
                assert time.monotonic() < deadline, "versitygw does not listen"
                time.sleep(0.05)
            yield S3Server(f"http://127.0.0.1:{port}", folder)
        finally:
            started.terminate()
            started.wait()


@contextmanager
def failing(url: str, every: int = 10) -> Iterator[tuple[str, list[int]]]:
    """A proxy that answers one request in so many with 503; its address, and how many it failed."""
    target, count, failed = url.removeprefix("http://"), itertools.count(1), [0]

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if next(count) % every == 0:
                failed[0] += 1
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(target, timeout=30)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            data = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in (
                    "transfer-encoding",
                    "content-length",
                    "connection",
                    "date",
                    "server",
                ):
                    self.send_header(name, value)
            length = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
            connection.close()

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    with served(proxy):
        yield f"http://127.0.0.1:{proxy.server_port}", failed


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port

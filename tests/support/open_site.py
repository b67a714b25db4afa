"""`assay serve` as a process, and what it answers, sent and read as they are."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ASSAY = Path(sys.executable).with_name("assay")


@dataclass(frozen=True)
class Answer:
    """Of a request."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Served:
    """A server of the runs in `runs`."""

    url: str
    port: int
    runs: Path

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request, sent as written: nothing in the path is resolved before."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        got = connection.getresponse()
        found = Answer(got.status, {k.lower(): v for k, v in got.headers.items()}, got.read().decode())
        connection.close()
        return found


@contextmanager
def serving(runs: Path, *options: str) -> Iterator[Served]:
    """A server of these runs on a free port, ended afterwards."""
    argv = [ASSAY, "serve", "--listen", "127.0.0.1:0", "--runs", str(runs), *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
        assert url is not None
        try:
            yield Served(url[0], int(url[1]), runs)
        finally:
            server.terminate()

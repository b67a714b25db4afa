"""`assay serve` as a process with tokens, and requests to it as a program or a browser makes them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ASSAY = Path(sys.executable).with_name("assay")
TOKENS = {name: f"{name}-" + "0123456789abcdef" * 3 for name in ("alice", "bob", "carol")}
ROLES = {"alice": "operator", "bob": "reader", "carol": "pusher"}


@dataclass(frozen=True)
class SiteAnswer:
    """An answer, its headers with names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        assert self.status < 300, self.text
        return json.loads(self.text)


@dataclass
class ServedSite:
    """A server of one runs directory."""

    process: subprocess.Popen[str]
    port: int
    runs: Path
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, path: str, method: str = "GET", *, who: str = "", body: bytes = b"", **headers: str
    ) -> SiteAnswer:
        """One request, with a person's token in its header."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if who:
            sent["Authorization"] = f"Bearer {TOKENS[who]}"
        connection.request(method, path, body or None, sent)
        got = connection.getresponse()
        found = SiteAnswer(got.status, {k.lower(): v for k, v in got.headers.items()}, got.read().decode())
        connection.close()
        return found

    def form(
        self, path: str, fields: Mapping[str, str] | Sequence[tuple[str, str]], **headers: str
    ) -> SiteAnswer:
        """A form, as a browser sends it."""
        kind = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self.ask(path, "POST", body=urlencode(fields).encode(), **kind)

    def until(
        self, path: str, is_so: Callable[[Any], bool], *, who: str = "", timeout_s: float = 120.0
    ) -> Any:
        """The JSON answer, once it is so."""
        give_up = time.monotonic() + timeout_s
        while not is_so(found := self.ask(path, who=who).json):
            assert time.monotonic() < give_up, found
            time.sleep(0.3)
        return found

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(by)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def tokens_file(directory: Path) -> Path:
    """A file with everybody's token."""
    path = directory / "tokens"
    path.write_text("".join(f"{name} {ROLES[name]} {token}\n" for name, token in TOKENS.items()))
    path.chmod(0o600)
    return path


def serving(runs: Path, *options: str, **environment: str) -> ServedSite:
    """A server that answers."""
    process = subprocess.Popen(
        [ASSAY, "serve", "--listen", "127.0.0.1:0", "--runs", str(runs), *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r":(\d+)/", line)
    assert found is not None, line
    return ServedSite(process, int(found[1]), runs)


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"

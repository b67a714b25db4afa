"""`assay monitor up` runs the real programs, and what it watches reaches a person's webhook."""

from __future__ import annotations

import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_live import running, shown  # noqa: F401 - a fixture

from assay.monitor.rules import RULES
from command_line import assay as typed
from conftest import require
from http_servers import served


@contextmanager
def up(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The command once everything answers, and what it printed."""
    for program in ("prometheus", "prometheus-alertmanager"):
        require("prometheus", shutil.which(program) is not None, f"{program} is not on the path")
    argv = [sys.executable, "-m", "assay", "monitor", "up", "--json", "--listen", "127.0.0.1:0", *words]
    with subprocess.Popen(
        argv, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            text = ""
            while (line := process.stdout.readline()).rstrip() != "}":
                assert line, process.stderr.read()
                text += line
            yield process, json.loads(text + line)
        finally:
            process.kill()


@contextmanager
def webhook() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """A receiver of alerts; its URL, and what it got."""
    got: queue.Queue[dict[str, Any]] = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """What arrives is in the queue."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    with served(server):
        yield f"http://127.0.0.1:{server.server_port}/", got


def children(pid: int) -> set[int]:
    """The processes that one has started and that live."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def alive(pids: set[int], within_s: float = 20.0) -> set[int]:
    """Which of these live on after some time; a zombie does not."""
    give_up = time.monotonic() + within_s
    while True:
        states = {pid: Path(f"/proc/{pid}/stat") for pid in pids}
        left = {
            pid for pid, stat in states.items() if stat.exists() and stat.read_text().split()[2] not in "ZX"
        }
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(0.1)


@pytest.mark.long
def test_an_xid_of_a_running_trial_reaches_a_webhook(running: Path) -> None:  # noqa: F811
    live = shown(running)
    log = running / live.run.id / "attempt-1/logs/telemetry-7.log"
    header = {
        "version": 1, "started_at": time.time(), "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": ["power_watts"], "gpus": [{"index": 2, "uuid": "GPU-2"}],
    }  # fmt: skip
    log.write_text(f":::ASSAY-TELEMETRY {json.dumps(header)}\nn 1 5 .\ng 1 2 300 .\nx 1.2 2 79 .\n")
    with webhook() as (url, got):
        receiver = {"name": "here", "webhook_configs": [{"url": url}]}
        route = {"receiver": "here", "group_wait": "0s", "group_by": ["alertname"]}
        configuration = running.parent / "alertmanager.yaml"
        configuration.write_text(json.dumps({"route": route, "receivers": [receiver]}))
        words = ("--every", "500ms", "--hold", "500ms", "--alertmanager-config", str(configuration))
        with up(running.parent, *words) as (process, said):
            assert {"prometheus", "alertmanager", "assay exporter"} <= set(said["urls"])
            arrived, give_up = dict[str, Any](), time.monotonic() + 60
            while "AssayGpuXid" not in arrived and time.monotonic() < give_up:
                message = got.get(timeout=60)
                assert message["version"] == "4"
                arrived |= {alert["labels"]["alertname"]: alert for alert in message["alerts"]}
            alert = arrived["AssayGpuXid"]
            assert alert["status"] == "firing"
            assert (alert["labels"]["gpu"], alert["labels"]["xid"]) == ("2", "79")
            assert alert["annotations"]["runbook"] == "docs/how-to/alerts.md#assaygpuxid"
            assert alert["annotations"]["summary"].endswith("reported Xid 79")
            with urllib.request.urlopen(f"{said['urls']['prometheus']}/api/v1/rules") as answer:
                (group,) = json.load(answer)["data"]["groups"]
            assert {rule["name"] for rule in group["rules"]} == {rule.name for rule in RULES}
            with urllib.request.urlopen(f"{said['urls']['prometheus']}/api/v1/targets") as answer:
                targets = json.load(answer)["data"]["activeTargets"]
            assert {one["labels"]["job"]: one["health"] for one in targets}["assay"] == "up"
            started = children(process.pid)
            assert len(started) >= 2
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert alive(started, 0) == set()


def test_nothing_is_left_of_a_killed_one_and_one_directory_has_one(tmp_path: Path) -> None:
    with up(tmp_path) as (process, said):
        assert said["directory"] == "assay-monitoring"
        second = typed(tmp_path, "monitor", "up", "--listen", "127.0.0.1:0")
        assert second.returncode == 6
        assert str(process.pid) in second.stderr
        started = children(process.pid)
        process.kill()
        assert alive(started) == set()
    with up(tmp_path) as (process, _):
        started = children(process.pid)
        os.kill(next(iter(started)), signal.SIGKILL)
        assert process.wait(60) == 5
        assert process.stderr
        assert "ended with exit code -9" in process.stderr.read()
        assert alive(started) == set()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--prometheus", "nothing"), 4, "nothing: not a program; --prometheus expects"),
        (("--alertmanager-config", "nothing"), 4, "nothing: no such file; --alertmanager-config expects"),
        (("--listen", "here"), 4, "'here' is no address"),
        (("--every", "2h"), 4, "choose between 0.1 s and 3600 s"),
        (("--dir", "suite.yaml/x"), 5, "suite.yaml"),
    ],
)
def test_what_can_not_be_is_an_error(tmp_path: Path, words: tuple[str, str], code: int, said: str) -> None:
    (tmp_path / "suite.yaml").touch()
    ran = typed(tmp_path, "monitor", "up", *words)
    assert said in ran.stderr
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_without_prometheus_it_says_where_to_get_one(tmp_path: Path) -> None:
    ran = typed(tmp_path, "monitor", "up", "--listen", "127.0.0.1:0", env={"PATH": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (5, "")
    assert "prometheus is not on the path; get it (apt install prometheus" in ran.stderr
    assert "--prometheus" in ran.stderr


def test_a_program_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "prometheus"
    program.write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
    program.chmod(0o700)
    ran = typed(tmp_path, "monitor", "up", "--listen", "127.0.0.1:0", "--prometheus", str(program))
    assert ran.returncode == 5
    assert "prometheus ended with exit code 3: no such flag; see " in ran.stderr

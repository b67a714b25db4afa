"""Telemetry from a real Prometheus that has what the usual exporters show, and from one that misbehaves."""

from __future__ import annotations

import http.server
import json
import shutil
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from test_exporter import _free_port, promtool
from test_rundir import header, plan, trial

from assay.errors import HostError
from assay.monitor.prometheus import PrometheusClient
from assay.monitor.questions.fetch import fetch_telemetry
from assay.records import RunState
from assay.rundir import session as rundir
from assay.telemetry import recorded
from assay.telemetry.agreement import agreement
from command_line import assay as typed
from conftest import require
from http_servers import served

STEP_S, RUN_S = 15, 600
DCGM_GPUS: Mapping[str, Callable[[float], float]] = {  # a GPU's values at a time since the run's begin
    "DCGM_FI_DEV_GPU_UTIL": lambda t: 98 if 0 <= t <= RUN_S else 0,
    "DCGM_FI_DEV_POWER_USAGE": lambda t: 600 if 0 <= t <= RUN_S else 80,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda t: 1e9 + 600e3 * min(max(t, 0), RUN_S) + 80e3 * (t + 1000),
    "DCGM_FI_DEV_FB_USED": lambda t: 70_000,
    "DCGM_FI_DEV_SM_CLOCK": lambda t: 1755,
}
Sample = tuple[str, Mapping[str, str], float, float]


def scraped(
    begin: float, labels: Callable[[str], Mapping[str, str]], *, pods: bool = False
) -> Iterator[Sample]:
    """What two nodes with two GPUs each showed to a Prometheus, from before the run until after it."""
    for node in ("n1", "n2"):
        for t in range(-300, RUN_S + 300, STEP_S):
            at = begin + t + 0.5
            for gpu in range(2):
                about = {"gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}", "modelName": "H200", **labels(node)}
                for name, value in DCGM_GPUS.items():
                    yield name, about, value(t), at
            for cpu in range(2):
                of_cpu = {"cpu": str(cpu), "instance": f"{node}.cluster.local:9100"}
                busy = 1000 + (t + 300) * (0.9 if t >= 0 else 0.1)
                yield "node_cpu_seconds_total", {**of_cpu, "mode": "user"}, busy, at
                yield "node_cpu_seconds_total", {**of_cpu, "mode": "idle"}, 9e5 - busy, at
            memory = {"instance": f"{node}.cluster.local:9100"}
            yield "node_memory_MemAvailable_bytes", memory, 5e11, at
            if pods:
                for number, container in enumerate(("train", "POD")):
                    of_pod = {"pod": f"job-{node}", "namespace": "ml", "container": container}
                    used = (t + 300) * 0.5 * (1 - number)
                    yield "container_cpu_usage_seconds_total", of_pod, used, at + 3


@contextmanager
def serving(folder: Path, samples: Iterator[Sample]) -> Iterator[str]:
    """A real Prometheus that has these samples; its URL."""
    require("prometheus", shutil.which("prometheus") is not None, "prometheus is not on the path")
    by_name: dict[str, list[str]] = {}
    for name, labels, value, at in samples:
        text = ",".join(f'{label}="{value}"' for label, value in labels.items())
        by_name.setdefault(name, []).append(f"{name}{{{text}}} {value} {at:.3f}\n")
    lines = [line for name, own in by_name.items() for line in (f"# TYPE {name} unknown\n", *own)]
    folder.mkdir()
    (folder / "scraped.txt").write_text("".join([*lines, "# EOF\n"]))
    made = promtool(
        "tsdb", "create-blocks-from", "openmetrics", str(folder / "scraped.txt"), str(folder / "data")
    )
    assert made.returncode == 0, made.stderr
    (folder / "prometheus.yaml").write_text("{}")
    port = _free_port()
    argv = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            give_up = time.monotonic() + 30
            while time.monotonic() < give_up:
                try:
                    with urllib.request.urlopen(f"{url}/-/ready"):
                        break
                except OSError:
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def finished(root: Path, begin: float, *hosts: str) -> rundir.Attempt:
    """A run of ten minutes on these hosts."""
    from dataclasses import replace

    from assay.records import JobState, Provenance, RenderedJob

    session = rundir.create(root, header(), plan(), {"suite.yaml": "suite: demo\n"})
    attempt, run = session.begin(trial(), "t0k3n", RenderedJob("train", {}, {}))
    attempt.append("rank-0", b"value 5\n")
    attempt.write_provenance(Provenance(tuple({"host": host} for host in hosts)))
    attempt.settle(
        replace(
            run, state=RunState.FINISHED, job=JobState.SUCCEEDED, started_at=begin, ended_at=begin + RUN_S
        )
    )
    return attempt


@pytest.fixture
def begin() -> float:
    """Two hours ago: blocks that are older than its retention are no longer Prometheus' to show."""
    return float(int(time.time()) - 7200)


LABELS: Mapping[str, Callable[[str], Mapping[str, str]]] = {
    "bare metal": lambda node: {"Hostname": node},
    "renamed": lambda node: {"hostname": f"{node}.cluster.local"},
    "by pod": lambda node: {
        "Hostname": f"other-{node}",
        "exported_pod": f"job-{node}",
        "pod": "dcgm-exporter-x",
    },
}


@pytest.mark.parametrize("style", LABELS)
def test_each_style_of_labels_gives_the_same_tables(tmp_path: Path, begin: float, style: str) -> None:
    pods = style == "by pod"
    hosts = ("job-n1", "job-n2") if pods else ("n1", "n2")
    attempt = finished(tmp_path / "runs", begin, *hosts)
    with serving(tmp_path / "prometheus", scraped(begin, LABELS[style], pods=pods)) as url:
        said = typed(tmp_path, "monitor", "fetch", "demo", "--prometheus", url, "--json")
    assert said.returncode == 0, said.stderr
    (found,) = json.loads(said.stdout)["runs"]
    assert (found["stored"], found["gpus"], found["nodes"]["all"]) == (True, 4, 2)
    cpu = "job_cpu_seconds_total" if pods else "cpu_busy_seconds_total"
    with recorded.tables(attempt.path) as tables:
        inside = f"unix_s BETWEEN {begin} AND {begin + RUN_S}"
        (power,) = tables.execute(f"SELECT avg(power_watts) FROM gpu WHERE {inside}").fetchall()[0]
        (clock, memory) = tables.execute(
            "SELECT max(sm_clock_hertz), max(memory_used_bytes) FROM gpu"
        ).fetchall()[0]
        busy = tables.execute(
            f"SELECT node, max({cpu}) - min({cpu}) FROM node WHERE {inside} GROUP BY node ORDER BY node"
        ).fetchall()
    assert power == pytest.approx(600)
    assert (clock, memory) == (1755e6, 70_000 * 2**20)
    rate = 0.5 if pods else 1.8
    assert [(node, used / RUN_S) for node, used in busy] == [
        (0, pytest.approx(rate, rel=0.03)),
        (1, pytest.approx(rate, rel=0.03)),
    ]
    assert "temperature_celsius" in found["missing"]
    assert found["missing"]["temperature_celsius"] == "DCGM_FI_DEV_GPU_TEMP of DCGM exporter"
    about = recorded.nodes(attempt.path)
    assert [(node.node, node.header.period_s, len(node.header.gpus)) for node in about] == [
        (0, 15.0, 2),
        (1, 15.0, 2),
    ]


def test_the_energy_of_a_run_follows_from_a_prometheus_alone(tmp_path: Path, begin: float) -> None:
    attempt = finished(tmp_path / "runs", begin, "n1", "n2")
    with serving(tmp_path / "prometheus", scraped(begin, LABELS["bare metal"])) as url:
        fetch_telemetry("demo", url, runs=tmp_path / "runs")
    from assay.telemetry.gpu_use import gpu_energy

    found = gpu_energy(attempt.path, RUN_S)
    assert found is not None
    assert (found.gpus, found.source) == (4, "energy counters")
    assert found.joules == pytest.approx(4 * 680 * RUN_S, rel=0.01)


@contextmanager
def answering(
    answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], tuple[int, Mapping[str, str], bytes]],
    tls: ssl.SSLContext | None = None,
) -> Iterator[str]:
    """A server whose every answer is made by a function of the request and its body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, headers, body = answer(self, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Not news."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with served(server):
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"


def matrix(*values: Any) -> bytes:
    series = {"metric": {"__name__": "m", "Hostname": "n1", "gpu": "0"}, "values": values}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).encode()


FAULTS: Mapping[str, tuple[int, Mapping[str, str], bytes, str]] = {
    "unauthorized": (401, {}, b"no", "requires a token: see --token-file (HTTP 401)"),
    "forbidden": (403, {}, b"no", "requires a token: see --token-file (HTTP 403)"),
    "down": (503, {}, b"<html>try again later</html>", "HTTP 503"),
    "a page": (200, {}, b"<html>Grafana</html>", "not an answer of Prometheus: <html>Grafana"),
    "an error": (200, {}, b'{"status":"error","error":"too many samples"}', "too many samples"),
    "a list": (200, {}, b"[1]", "not an answer of Prometheus"),
    "half": (200, {"Content-Length": "9999"}, b'{"status"', "not an answer of Prometheus"),
    "strange": (200, {}, matrix(["x", "y"]), "not an answer of Prometheus"),
    "an object": (200, {}, b'{"status":"success","data":{"result":{"a":5}}}', "not an answer of Prometheus"),
    "nothing": (
        200,
        {},
        b'{"status":"success","data":{"resultType":"matrix"}}',
        "not an answer of Prometheus",
    ),
    "elsewhere": (302, {"Location": "https://evil.example/"}, b"", "redirects to evil.example"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_does_not_answer_as_prometheus_costs_nothing_that_was_stored(
    tmp_path: Path, begin: float, fault: str
) -> None:
    attempt = finished(tmp_path / "runs", begin, "n1")
    kept = attempt.path / "telemetry-prometheus"
    kept.mkdir()
    (kept / "about.json").write_text("earlier")
    status, headers, body, words = FAULTS[fault]
    with answering(lambda *_: (status, headers, body)) as url:
        said = typed(tmp_path, "monitor", "fetch", "demo", "--prometheus", url)
    assert said.returncode == 5, said.stdout
    assert words in said.stderr
    assert "Traceback" not in said.stderr
    assert (kept / "about.json").read_text() == "earlier"


def test_an_answer_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.monitor.prometheus.LONGEST_S", 0.5)
    over = threading.Event()

    def answer(handler: http.server.BaseHTTPRequestHandler, _: bytes) -> tuple[int, Mapping[str, str], bytes]:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        with suppress(OSError):
            while not over.wait(0.05):
                handler.wfile.write(b" ")
        return 200, {}, b""

    with answering(answer) as url:
        with pytest.raises(HostError, match=r"no answer \(its answer has not ended after 0.5 s\)"):
            PrometheusClient(url).version()
        over.set()


def test_values_that_are_no_numbers_are_gaps_and_nothing_there_is_said(tmp_path: Path, begin: float) -> None:
    finished(tmp_path / "runs", begin, "n1")
    values = [[begin + 15 * k, "NaN" if k % 2 else "+Inf"] for k in range(40)]
    with answering(lambda *_: (200, {}, matrix(*values))) as url:
        said = typed(tmp_path, "monitor", "fetch", "demo", "--prometheus", url)
    assert said.returncode == 1
    assert (
        "nothing stored: this Prometheus has no series of its nodes at that time (looked for n1)"
        in said.stdout
    )


def test_a_token_travels_over_tls_only_and_is_in_no_file(tmp_path: Path, begin: float) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    token, asked = "sha256~Zk3vXq9Rt2LwPm7Yc5", list[str]()

    def answer(handler: http.server.BaseHTTPRequestHandler, _: bytes) -> tuple[int, Mapping[str, str], bytes]:
        asked.append(handler.headers.get("Authorization", ""))
        if asked[-1] != f"Bearer {token}":
            return 401, {}, b""
        return 200, {}, matrix(*([begin + 15 * k, "97"] for k in range(-4, 44)))

    attempt = finished(tmp_path / "runs", begin, "n1")
    (tmp_path / "token").write_text(f"{token}\n")
    with answering(answer, tls) as url:
        words = ("monitor", "fetch", "demo", "--prometheus", url)
        untrusted = typed(tmp_path, *words, "--token-file", "token")
        assert (untrusted.returncode, asked) == (5, [])
        assert "certificate" in untrusted.stderr
        wrong = typed(
            tmp_path, *words, "--ca-file", "ca.pem", "--token-env", "T", env={"T": "wrong-token-1234"}
        )
        assert wrong.returncode == 5
        assert "refuses the token" in wrong.stderr
        right = typed(tmp_path, *words, "--ca-file", "ca.pem", "--token-file", "token", "--json")
        assert right.returncode == 0, right.stderr
    written = b"".join(path.read_bytes() for path in attempt.path.rglob("*") if path.is_file())
    assert token.encode() not in written
    assert token not in right.stdout + right.stderr + wrong.stderr
    plain = typed(
        tmp_path, "monitor", "fetch", "demo", "--prometheus", "http://prom.example", "--token-file", "token"
    )
    assert plain.returncode == 4
    assert "use https" in plain.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("demo", "--prometheus", "prometheus:9090"), "write it as https://prometheus.example"),
        (("demo", "--prometheus", "http://a:b@prom"), "a user or a password"),
        (("demo", "--prometheus", "http://prom/graph?x=1"), "ends before /api/v1"),
        (("other", "--prometheus", "http://127.0.0.1:1"), "other: no session below runs"),
        (("demo", "--prometheus", "http://127.0.0.1:1", "--token-file", "none"), "none: No such file"),
        (("demo", "--prometheus", "http://127.0.0.1:1", "--token-file", "two"), "no bearer token"),
        (("demo", "--prometheus", "https://127.0.0.1:1", "--ca-file", "two"), "certificates in PEM"),
    ],
)
def test_what_can_not_be_asked_is_an_error(
    tmp_path: Path, begin: float, words: tuple[str, ...], said: str
) -> None:
    finished(tmp_path / "runs", begin, "n1")
    (tmp_path / "two").write_text("two words")
    ran = typed(tmp_path, "monitor", "fetch", *words)
    assert ran.returncode == 4, ran.stderr
    assert said in ran.stderr


def sampler_log(begin: float, power: float) -> str:
    said = {
        "version": 1, "started_at": begin, "period_s": 1.0, "node": ["memory_available_bytes"],
        "gpu": ["power_watts", "utilization_percent"], "gpus": [{"index": 0}, {"index": 1}],
    }  # fmt: skip
    rows = [
        row
        for t in range(RUN_S)
        for row in (f"n {t} 500000000000 .", *(f"g {t} {gpu} {power + (t % 7)} 98 ." for gpu in range(2)))
    ]
    return "\n".join([f":::ASSAY-TELEMETRY {json.dumps(said)}", *rows]) + "\n"


@pytest.mark.parametrize(("power", "differs"), [(600.0, False), (450.0, True)])
def test_two_sources_agree_or_a_doubt_says_so(
    tmp_path: Path, begin: float, power: float, differs: bool
) -> None:
    attempt = finished(tmp_path / "runs", begin, "n1", "n2")
    (attempt.path / "logs/telemetry-0.log").write_text(sampler_log(begin, power))
    recorded.store(attempt.path)
    with serving(tmp_path / "prometheus", scraped(begin, LABELS["bare metal"])) as url:
        said = typed(tmp_path, "monitor", "fetch", "demo", "--prometheus", url)
    assert said.returncode == 0, said.stderr
    found = agreement(attempt.path)
    assert found.compared == 5  # power and use of two GPUs, memory of the node
    assert [(one.what, one.place) for one in found.differences] == (
        [("power", "GPU 0 of node 0"), ("power", "GPU 1 of node 0")] if differs else []
    )
    assert ("! power of GPU 0 of node 0: sampler 453 W, Prometheus 600 W" in said.stdout) is differs

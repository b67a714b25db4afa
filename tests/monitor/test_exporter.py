"""Metrics of a real run reach a real Prometheus, under names that promtool accepts."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from test_live import running, shown  # noqa: F401 - a fixture

from assay import api
from assay.errors import HostError, InputError
from assay.monitor.exporter import MetricsCollector, NewestResult, NewestResults, NewestVerdict
from assay.monitor.live import LiveGpu, LiveNode, LiveRank, LiveRun, LiveRuns
from assay.monitor.questions import export as monitor_question
from assay.monitor.rules import RULES
from assay_payloads.sampling.gpus import GPU_COLUMNS
from assay_payloads.sampling.node import COLUMNS
from command_line import assay as typed
from conftest import require
from http_servers import served

NAMES = 'a "quoted"\nname\\'
RESULT = NewestResult("s", "t", "here", "b", "1x1", "throughput", "images/s", 10.0, 9.0, None, 5)
VERDICT = NewestVerdict("s", "t", "there", "here", "b", "1x1", "throughput", "slower", 0.9)


def promtool(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    require("prometheus", shutil.which("promtool") is not None, "promtool is not on the path")
    return subprocess.run(["promtool", *words], input=text, text=True, capture_output=True, check=False)


def sampled(live: LiveRun) -> LiveRun:
    """A running trial with every column of every source, and names that need quotes."""
    gpus = [LiveGpu(n, dict.fromkeys(GPU_COLUMNS, 64.0), {}, f"GPU-{n}", NAMES, {79: 2}) for n in range(2)]
    nodes = (LiveNode(0, 1e9, dict.fromkeys(COLUMNS, 1.5), {}, tuple(gpus), ()),)
    figures = {"throughput": 10.0, "loss": 0.5, "step_time": 0.1, "step": 3.0, "accuracy": 0.9}
    return LiveRun(live.run, live.session, 1, 2, 5.0, nodes, (LiveRank(0, 0.5, figures, "behind"),))


def registry(lives: Sequence[LiveRun], newest: NewestResults) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(MetricsCollector(lambda: LiveRuns(tuple(lives), ()), lambda: newest))
    return made


def test_promtool_accepts_every_metric_and_its_values_are_in_base_units(running: Path) -> None:  # noqa: F811
    made = registry([sampled(shown(running))], NewestResults([RESULT], [VERDICT], {("s", "t"): 3}))
    text = generate_latest(made).decode()
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    value = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    found = {name.partition("{")[0]: number for name, number in value.items()}
    assert found["assay_gpu_utilization_ratio"] == 0.64
    assert found["assay_node_cpu_busy_seconds_total"] == 1.5
    assert found["assay_gpu_xid_events_total"] == 2
    assert found["assay_rank_step_seconds"] == 0.1
    assert found["assay_rank_off"] == 1
    assert [number for name, number in value.items() if 'reason="hardware_thermal"' in name] == [1, 1]
    assert [number for name, number in value.items() if name.startswith("assay_result{")] == [10, 9]
    assert next(number for name, number in value.items() if 'verdict="slower"' in name) == 1
    assert r"a \"quoted\"\nname\\" in text
    assert openmetrics.generate_latest(made).endswith(b"# EOF\n")


def test_what_can_not_be_read_is_counted_and_the_rest_is_served() -> None:
    def damaged() -> Sequence[LiveRun]:
        raise InputError("run.json: damaged")

    made = CollectorRegistry()
    made.register(MetricsCollector(damaged, lambda: NewestResults([RESULT], errors=2)))
    text = generate_latest(made).decode()
    assert "assay_exporter_read_errors_total 3.0" in text
    assert "assay_result{" in text


@contextmanager
def prometheus(folder: Path, target: str, rules: str) -> Iterator[str]:
    """A Prometheus that scrapes the target four times per second; its URL."""
    program = shutil.which("prometheus")
    require("prometheus", program is not None, "prometheus is not on the path")
    (folder / "rules.yaml").write_text(rules)
    config = {
        "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "assay", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    assert promtool("check", "config", str(folder / "prometheus.yaml")).returncode == 0
    with urllib.request.urlopen(f"http://{target}/metrics") as answer:
        assert answer.status == 200
    port = _free_port()
    argv = [
        str(program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def query(url: str, expression: str) -> list[dict[str, Any]]:
    words = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{words}") as answer:
            said = json.load(answer)
    except urllib.error.URLError as error:
        if isinstance(error, urllib.error.HTTPError) and error.code != 503:  # it is starting
            raise
        return []
    assert said["status"] == "success", said
    found: list[dict[str, Any]] = said["data"]["result"]
    return found


def until(url: str, expression: str) -> list[dict[str, Any]]:
    """The first answer that has a series."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        if found := query(url, expression):
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{expression} has no series")


def test_a_real_prometheus_scrapes_a_real_run(running: Path, tmp_path: Path) -> None:  # noqa: F811
    shown(running)
    server, url = monitor_question.monitor_server("127.0.0.1:0", runs=running)
    with served(server):
        target = url.removeprefix("http://").removesuffix("/metrics")
        rules = subprocess.run(
            [sys.executable, "-m", "assay", "monitor", "rules"], capture_output=True, text=True, check=True
        ).stdout
        (tmp_path / "prometheus").mkdir()
        with prometheus(tmp_path / "prometheus", target, rules) as there:
            steps = until(there, "assay_rank_step")
            assert {one["metric"]["rank"] for one in steps} == {"0", "1", "2"}
            assert steps[0]["metric"]["suite"] == "steps"
            (rate,) = until(there, "rate(assay_node_job_cpu_seconds_total[2s])")
            assert 0 <= float(rate["value"][1]) < 64
            assert until(there, "assay_rank_off == 1")[0]["metric"]["rank"] == "1"
            for rule in RULES:
                query(there, rule.expression)  # Prometheus accepts each


@pytest.mark.parametrize("address", ["9850", "host", ":", "127.0.0.1:99999", "127.0.0.1:x"])
def test_what_is_no_address_is_an_error(address: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, HostError), match=r"address|listen"):
        monitor_question.monitor_server(address, runs=tmp_path)


def test_the_textfile_is_whole_and_its_name_one_that_is_read(tmp_path: Path) -> None:
    target = tmp_path / "assay.prom"
    monitor_question.write_textfile(target, runs=tmp_path)
    assert target.read_bytes() == api.monitor_metrics(runs=tmp_path)
    assert promtool("check", "metrics", text=target.read_text()).returncode == 0
    with pytest.raises(InputError, match=r"end in \.prom"):
        monitor_question.write_textfile(tmp_path / "assay.txt", runs=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["assay.prom"]


def test_a_client_that_sends_nothing_keeps_no_scrape_waiting(tmp_path: Path) -> None:
    server, address = api.monitor_server("127.0.0.1:0", runs=tmp_path)
    with served(server):
        idle = socket.create_connection(("127.0.0.1", server.server_port))
        with idle, urllib.request.urlopen(address, timeout=10) as answer:
            assert b"assay_build_info" in answer.read()


@pytest.mark.long
def test_a_damaged_session_hides_no_running_trial(running: Path) -> None:  # noqa: F811
    live = shown(running)
    broken = running / "broken" / "2026-01-01T00-00-00Z"
    broken.mkdir(parents=True)
    for name in ("session.json", "plan.json", "suite.yaml", "systems.yaml"):
        (broken / name).write_text("")
    found = api.running_trials(runs=running)
    text = api.monitor_metrics(runs=running).decode()
    said = typed(running.parent, "show", "--runs", str(running)).stderr
    shutil.rmtree(broken.parent)
    assert [one.run.id for one in found.running] == [live.run.id]
    assert ["session.json" in str(problem) for problem in found.problems] == [True]
    assert f'trial="{live.run.trial.id}"' in text
    assert "broken" in said
    assert "session.json" in said

"""Every query of every dashboard returns data from a real Prometheus that scraped what it is about."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from ruamel.yaml import YAML
from test_exporter import RESULT, VERDICT, prometheus, query, registry, sampled
from test_live import running, shown  # noqa: F401 - a fixture

from assay.monitor import rules
from assay.monitor.dashboards import CONSOLE_PANELS, CONSOLE_VARIABLES, console_dashboard, dashboards
from assay.monitor.exporter import NewestResults
from assay.monitor.live import LiveRun
from command_line import assay as typed
from conftest import ROOT, require
from http_servers import served

DCGM = "".join(
    f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1",pod="p"}} {value}\n'
    for gpu in range(2)
    for name, value in {
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_FB_USED": 70_000,
        "DCGM_FI_DEV_POWER_USAGE": 612.5,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_SM_CLOCK": 1755,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.45,
    }.items()
)


def panels() -> list[tuple[str, str, str]]:
    """Dashboard, panel, and expression of each query, its variables replaced by what matches everything."""
    found = []
    for name, text in dashboards().items():
        made = json.loads(text)
        asked = [(panel["title"], target["expr"]) for panel in made["panels"] for target in panel["targets"]]
        asked += [(mark["name"], mark["expr"]) for mark in made["annotations"].get("list", ())]
        for title, expression in asked:
            everything = re.sub(r"\$[a-z]+", ".*", expression.replace("$__rate_interval", "3s"))
            found.append((name, title, everything))
    return found


def moving(live: LiveRun, started: float) -> LiveRun:
    """Counters that count."""
    passed = time.monotonic() - started
    nodes = []
    for node in live.nodes:
        gpus = tuple(replace(gpu, values=dict.fromkeys(gpu.values, 64 + passed)) for gpu in node.gpus)
        nodes.append(replace(node, values=dict.fromkeys(node.values, 1 + passed), gpus=gpus))
    ranks = tuple(replace(rank, rank=0, figures={**rank.figures, "epoch": passed}) for rank in live.ranks)
    return replace(live, nodes=tuple(nodes), ranks=ranks)


@pytest.fixture
def target(running: Path) -> Iterator[str]:  # noqa: F811
    """The address of an exporter of every metric that there is, next to a replayed DCGM exporter."""
    live, started = sampled(shown(running)), time.monotonic()
    newest = NewestResults([RESULT], [VERDICT], {("s", "t"): 3})

    class Exporter(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = generate_latest(registry([moving(live, started)], newest)) + DCGM.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Scrapes are not news."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    with served(server):
        yield f"127.0.0.1:{server.server_port}"


def test_every_query_of_every_dashboard_returns_data(target: str, tmp_path: Path) -> None:
    (tmp_path / "prometheus").mkdir()
    with prometheus(tmp_path / "prometheus", target, rules.rule_file()) as there:
        empty, give_up = panels(), time.monotonic() + 40
        assert len(empty) > 50
        while empty and time.monotonic() < give_up:
            time.sleep(0.5)
            empty = [one for one in empty if not query(there, one[2])]
    assert empty == []


def test_the_files_are_what_the_program_writes() -> None:
    try:
        import grafana_foundation_sdk
    except ImportError:
        require("grafana-sdk", present=False, reason="grafana-foundation-sdk is not in this environment")
    assert grafana_foundation_sdk
    program = ROOT / "tools/make_dashboards.py"
    ran = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_each_dashboard_is_one_that_grafana_s_own_types_read() -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    for text in dashboards().values():
        read = models.Dashboard.from_json(json.loads(text))
        assert read.title.startswith("Assay: ")
        assert all(panel.targets for panel in read.panels)
    assert len({json.loads(text)["uid"] for text in dashboards().values()}) == len(dashboards())


@pytest.mark.long
def test_the_command_writes_files_or_config_maps(tmp_path: Path) -> None:
    said = typed(tmp_path, "monitor", "dashboards", "-o", "there")
    assert said.returncode == 0, said.stderr
    assert {path.name for path in (tmp_path / "there").iterdir()} == {f"assay-{n}.json" for n in dashboards()}
    said = typed(tmp_path, "monitor", "dashboards", "--kubernetes", "--namespace", "monitoring")
    made = list(YAML(typ="safe", pure=True).load_all(said.stdout))
    assert len(made) == len(dashboards())
    for one in made:
        assert one["metadata"]["namespace"] == "monitoring"
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        (content,) = one["data"].values()
        assert (
            json.loads(content)["uid"] == f"assay-{one['metadata']['name'].removeprefix('assay-dashboard-')}"
        )
    assert typed(tmp_path, "monitor", "dashboards", "--namespace", "x").returncode == 2


DASHBOARDS = dashboards()


def derived(name: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(console_dashboard(DASHBOARDS[name]))
    return made


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_console_gets_only_panels_and_variables_that_it_draws(name: str) -> None:
    made = derived(name)
    assert "panels" not in made
    panels = [panel for row in made["rows"] for panel in row["panels"]]
    assert panels
    assert {panel["type"] for panel in panels} <= CONSOLE_PANELS
    assert {one["type"] for one in made["templating"]["list"]} <= CONSOLE_VARIABLES
    assert all(isinstance(one["query"], str) for one in made["templating"]["list"])
    assert all(sum(panel["span"] for panel in row["panels"]) <= 12 for row in made["rows"])
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_panel_or_query_is_lost_and_nothing_of_grafana_alone_stays(name: str) -> None:
    text = console_dashboard(DASHBOARDS[name])
    assert "datasource" not in text
    assert "$__rate_interval" not in text
    before = [panel for panel in json.loads(DASHBOARDS[name])["panels"] if panel["type"] != "row"]
    after = [panel for row in derived(name)["rows"] for panel in row["panels"]]
    assert [panel["title"] for panel in after] == [panel["title"] for panel in before]
    expressions = [
        [target["expr"].replace("$__rate_interval", "5m") for target in panel["targets"]] for panel in before
    ]
    assert [[target["expr"] for target in panel["targets"]] for panel in after] == expressions


@pytest.mark.parametrize(
    ("kind", "drawn"),
    [("timeseries", "graph"), ("stat", "singlestat"), ("gauge", "gauge"), ("piechart", "pie")],
)
def test_each_kind_of_panel_has_its_older_name(kind: str, drawn: str) -> None:
    made = json.loads(console_dashboard(_with(type=kind)))
    assert made["rows"][0]["panels"][0]["type"] == drawn


def test_a_panel_that_the_console_would_drop_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Map': the console draws no panels of type geomap"):
        console_dashboard(_with(type="geomap", title="Map"))


def test_a_variable_that_the_console_does_not_know_is_an_error() -> None:
    changed = json.loads(DASHBOARDS["fleet"])
    changed["templating"]["list"].append({"type": "textbox", "name": "word", "query": ""})
    with pytest.raises(ValueError, match="variable word: the console knows no variables of type textbox"):
        console_dashboard(json.dumps(changed))


def _with(**panel: str) -> str:
    changed = json.loads(DASHBOARDS["fleet"])
    changed["panels"][0] |= panel
    return json.dumps(changed)

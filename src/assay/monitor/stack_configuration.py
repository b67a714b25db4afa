"""Prometheus and its neighbors on one machine: which programs, and their configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.durable import deliver
from assay.monitor import rules
from assay.monitor.dashboards import dashboards

HOST: Final = "127.0.0.1"  # none of them asks for a password


@dataclass(frozen=True)
class StackProgram:
    """A program of the stack.

    files   its names on the path
    port    the usual one
    ready   path of the URL that answers once it works
    source  how to get it
    """

    name: str
    files: tuple[str, ...]
    port: int
    ready: str
    source: str


PROMETHEUS: Final = StackProgram(
    "prometheus", ("prometheus",), 9090, "/-/ready", "apt install prometheus, or prometheus.io/download"
)
NEIGHBORS: Final = (
    StackProgram(
        "alertmanager",
        ("prometheus-alertmanager", "alertmanager"),
        9093,
        "/-/ready",
        "apt install prometheus-alertmanager, or prometheus.io/download",
    ),
    StackProgram(
        "node exporter",
        ("prometheus-node-exporter", "node_exporter"),
        9100,
        "/metrics",
        "apt install prometheus-node-exporter, or prometheus.io/download",
    ),
    StackProgram("grafana", ("grafana-server",), 3000, "/api/health", "grafana.com/grafana/download"),
)


@dataclass(frozen=True)
class StackOptions:
    """Choices of the user.

    directory     for configuration, data and logs
    exporter      host and port of Assay's exporter
    prometheus    its program; None: the one on the path
    every_s       between scrapes, and between looks at the rules
    hold_s        how long each alert must hold before it fires; None: as its rule says
    alertmanager  the user's own configuration of Alertmanager; None: alerts are shown and sent to nobody
    """

    directory: Path
    exporter: str
    prometheus: Path | None = None
    every_s: float = 15.0
    hold_s: float | None = None
    alertmanager: Path | None = None


def prometheus_configuration(options: StackOptions, ports: Mapping[str, int]) -> dict[str, Any]:
    """Prometheus' configuration: scrapes of what runs, the rules, Alertmanager if it runs."""
    every = _milliseconds(options.every_s)
    targets = {"assay": options.exporter, "prometheus": f"{HOST}:{ports['prometheus']}"}
    if "node exporter" in ports:
        targets["node"] = f"{HOST}:{ports['node exporter']}"
    configuration: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()
        ],
    }
    if "alertmanager" in ports:
        target = f"{HOST}:{ports['alertmanager']}"
        configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [target]}]}]}
    return configuration


def rule_groups(hold_s: float | None) -> dict[str, Any]:
    """The content of the rule file; hold_s: as in StackOptions."""
    groups = rules.groups()
    if hold_s is not None:
        held = {"for": _milliseconds(hold_s)}
        groups = [{**group, "rules": [{**rule, **held} for rule in group["rules"]]} for group in groups]
    return {"groups": groups}


def write_configuration(options: StackOptions, ports: Mapping[str, int]) -> None:
    """The files that these programs read, below the stack's directory; JSON is YAML.

    Raises HostError if one can't be written.
    """
    files: dict[str, Any] = {
        "prometheus.yaml": prometheus_configuration(options, ports),
        "rules.yaml": rule_groups(options.hold_s),
        "alertmanager.yaml": {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]},
    }
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}
    if "grafana" in ports:
        texts |= _grafana_files(options.directory, f"http://{HOST}:{ports['prometheus']}")
    for name, text in texts.items():
        deliver(options.directory / name, text.encode(), option="--dir")


def _grafana_files(directory: Path, prometheus: str) -> dict[str, str]:
    """Our dashboards, and where their data is."""
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": prometheus}
    boards = directory.absolute() / "grafana" / "dashboards"
    provided = {"name": "assay", "type": "file", "options": {"path": str(boards)}}
    provisioning = {
        "datasources": {"apiVersion": 1, "datasources": [{**source, "isDefault": True}]},
        "dashboards": {"apiVersion": 1, "providers": [provided]},
    }
    return {
        f"grafana/provisioning/{kind}/assay.yaml": json.dumps(content, indent=2) + "\n"
        for kind, content in provisioning.items()
    } | {f"grafana/dashboards/assay-{name}.json": text for name, text in dashboards().items()}


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1e3))}ms"

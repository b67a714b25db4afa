"""Dashboards in the form that OpenShift's web console draws: Grafana's of before version 5. Pure.

The console draws a few kinds of panels, in rows, and silently drops every other one. It knows variables whose
values come from a query and intervals; it has one data source and needs no name for it.
Source: OpenShift's console, frontend/packages/monitoring-plugin, types of its dashboards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

NAMESPACE: Final = "openshift-config-managed"
LABEL: Final = ("console.openshift.io/dashboard", "true")
PANELS: Final = frozenset({"row", "graph", "singlestat", "gauge", "table", "pie"})
VARIABLES: Final = frozenset({"query", "interval"})
RATE_INTERVAL: Final = "5m"  # in place of Grafana's $__rate_interval: ten times the usual scrape interval
_KINDS: Final = {"timeseries": "graph", "stat": "singlestat", "piechart": "pie"}
_COLUMNS: Final = 24  # of Grafana's grid; a row of the console has 12


def console_dashboard(text: str) -> str:
    """The JSON of one of Grafana's dashboards, as the console needs it.

    Raises ValueError for a panel that the console has no kind for: it would be dropped without a word.
    """
    dashboard = json.loads(text)
    variables = [
        _variable(variable)
        for variable in dashboard.get("templating", {}).get("list", ())
        if variable["type"] != "datasource"
    ]
    converted = {
        "title": dashboard["title"],
        "tags": dashboard.get("tags", []),
        "refresh": dashboard.get("refresh", "30s"),
        "time": dashboard["time"],
        "timezone": "browser",
        "schemaVersion": 16,
        "templating": {"list": variables},
        "rows": _rows(dashboard["panels"]),
        "uid": dashboard["uid"],
    }
    return json.dumps(converted, indent=1) + "\n"


def _variable(variable: Mapping[str, Any]) -> dict[str, Any]:
    if variable["type"] not in VARIABLES:
        raise ValueError(
            f"variable {variable['name']}: the console knows no variables of type {variable['type']}"
        )
    return {
        "name": variable["name"],
        "type": variable["type"],
        "query": variable["query"],
        "includeAll": variable.get("includeAll", False),
        "multi": False,  # the console's lists choose one value or all
        "allValue": variable.get("allValue"),
        "current": {"text": "All", "value": "$__all"} if variable.get("includeAll") else {},
        "refresh": 2,
    }


def _rows(panels: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The panels at one height are one row."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for number, panel in enumerate(panels, 1):
        rows.setdefault(panel["gridPos"]["y"], []).append(_panel(panel, number))
    return [{"title": "", "collapse": False, "showTitle": False, "panels": row} for row in rows.values()]


def _panel(panel: Mapping[str, Any], number: int) -> dict[str, Any]:
    kind = _KINDS.get(panel["type"], panel["type"])
    if kind not in PANELS:
        raise ValueError(f"panel {panel['title']!r}: the console draws no panels of type {panel['type']}")
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")
    scale = {"format": unit} if kind in ("singlestat", "gauge") else {"yaxes": [{"format": unit}, {}]}
    return {
        "id": number,
        "title": panel["title"],
        "type": kind,
        "span": panel["gridPos"]["w"] * 12 // _COLUMNS,
        "targets": [_target(target) for target in panel["targets"]],
        **scale,
    }


def _target(target: Mapping[str, Any]) -> dict[str, str]:
    return {
        "expr": target["expr"].replace("$__rate_interval", RATE_INTERVAL),
        "legendFormat": target.get("legendFormat", ""),
        "format": "time_series",
        "refId": target["refId"],
    }

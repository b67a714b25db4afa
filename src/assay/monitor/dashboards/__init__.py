"""Grafana's dashboards for Assay's metrics, as `tools/make_dashboards.py` wrote them.

OpenShift's web console draws Grafana's form of before version 5: a few kinds of panels, in rows; it silently
drops every other one. It knows variables whose values come from a query and intervals; it has one data source
and needs no name for it. Source: OpenShift's console, frontend/packages/monitoring-plugin, types of its
dashboards.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

SIDECAR_LABEL = ("grafana_dashboard", "1")  # by which Grafana's sidecar finds ConfigMaps


def dashboards() -> dict[str, str]:
    """Name → JSON of each dashboard."""
    folder = files(__name__)
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".json"))
    return {name.removesuffix(".json"): (folder / name).read_text(encoding="utf-8") for name in names}


def config_map_objects(namespace: str = "") -> list[dict[str, Any]]:
    """Each dashboard as a ConfigMap for Grafana's sidecar.

    namespace  "" for the one that kubectl uses
    """
    label, value = SIDECAR_LABEL
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"assay-dashboard-{name}",
                **({"namespace": namespace} if namespace else {}),
                "labels": {label: value, "app.kubernetes.io/name": "assay"},
            },
            "data": {f"assay-{name}.json": content},
        }
        for name, content in dashboards().items()
    ]


def config_maps(namespace: str) -> str:
    """The ConfigMaps as YAML documents."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import walk_tree

    yaml, text = YAML(pure=True), io.StringIO()
    yaml.explicit_start = True
    objects = config_map_objects(namespace)
    walk_tree(objects)  # the JSON as a block
    yaml.dump_all(objects, text)
    return text.getvalue()


CONSOLE_NAMESPACE: Final = "openshift-config-managed"
CONSOLE_LABEL: Final = ("console.openshift.io/dashboard", "true")
CONSOLE_PANELS: Final = frozenset({"row", "graph", "singlestat", "gauge", "table", "pie"})
CONSOLE_VARIABLES: Final = frozenset({"query", "interval"})
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
    if variable["type"] not in CONSOLE_VARIABLES:
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
    if kind not in CONSOLE_PANELS:
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

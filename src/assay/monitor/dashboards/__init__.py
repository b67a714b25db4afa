"""Grafana's dashboards for Assay's metrics, as `tools/make_dashboards.py` wrote them."""

from __future__ import annotations

import io
from importlib.resources import files
from typing import Any

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

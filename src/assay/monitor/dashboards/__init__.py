"""Grafana's dashboards for Assay's metrics, as `tools/make_dashboards.py` wrote them."""

from __future__ import annotations

import io
from importlib.resources import files

SIDECAR_LABEL = ("grafana_dashboard", "1")  # by which Grafana's sidecar finds ConfigMaps


def dashboards() -> dict[str, str]:
    """Name → JSON of each dashboard."""
    folder = files(__name__)
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".json"))
    return {name.removesuffix(".json"): (folder / name).read_text(encoding="utf-8") for name in found}


def config_maps(namespace: str) -> str:
    """Each dashboard as a ConfigMap for Grafana's sidecar, as YAML documents.

    namespace  "" for the one that kubectl uses
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    yaml, text = YAML(pure=True), io.StringIO()
    yaml.explicit_start = True
    label, value = SIDECAR_LABEL
    made = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"assay-dashboard-{name}",
                **({"namespace": namespace} if namespace else {}),
                "labels": {label: value, "app.kubernetes.io/name": "assay"},
            },
            "data": {f"assay-{name}.json": LiteralScalarString(content)},
        }
        for name, content in dashboards().items()
    ]
    yaml.dump_all(made, text)
    return text.getvalue()

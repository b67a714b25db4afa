"""Settings that are lines of a text within an object: the API server can't merge them, so nothing else does.

If the object does not exist, it is created with the requested lines. If it exists, its text is never written:
it belongs to whoever keeps it, and only they know what else it must contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.launch.kubernetes.order import Manifest

_TEXTS: Final[Mapping[tuple[str, str, str], str]] = {
    ("ConfigMap", "openshift-monitoring", "cluster-monitoring-config"): "config.yaml",
}
"""Kind, namespace and name → the key whose text is YAML."""


def key_of(obj: Manifest) -> str | None:
    """The key with the text; None if the object has none."""
    metadata = obj["metadata"]
    return _TEXTS.get((obj["kind"], metadata.get("namespace", ""), metadata["name"]))


def missing(obj: Manifest, before: Manifest) -> tuple[str, ...]:
    """What a person must do so that the existing text has the requested settings; empty if it has them.

    obj     with the requested text
    before  as it is on the cluster
    """
    key = key_of(obj)
    assert key is not None
    data = before.get("data")
    text = data.get(key, "") if isinstance(data, Mapping) else ""
    field = f".data.{key}"
    requested, existing = _mapping(obj["data"][key]), _mapping(text)
    assert requested is not None
    if existing is None:
        return (f"{field}: it is not a mapping in YAML: correct it first",)
    return tuple(
        f"{field}: {_step(name, value, existing)}; the rest of the text stays, so Assay doesn't write it"
        for name, value in requested.items()
        if existing.get(name) != value
    )


def _step(name: str, value: object, existing: Mapping[str, object]) -> str:
    line = f'"{name}: {str(value).lower() if isinstance(value, bool) else value}"'
    return f"change {name} to {line}" if name in existing else f"add the line {line}"


def _mapping(text: object) -> Mapping[str, object] | None:
    """A text's top-level keys; None if it is no mapping. An empty text is an empty one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if not isinstance(text, str):
        return None
    try:
        loaded = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return None
    return {} if loaded is None else loaded if isinstance(loaded, Mapping) else None

"""Strategic merge: a patch of the rendered pod template, as `kubectl patch` would apply it. Pure.

Source: Kubernetes, community/contributors/devel/sig-api-machinery/strategic-merge-patch.md, and the
`patchMergeKey` of the fields of k8s.io/api/core/v1.
"""

from __future__ import annotations

from typing import Any

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "env": "name",
    "claims": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists that are merged element by element, with their merge keys; other lists are replaced."""


def check(patch: dict[str, Any]) -> dict[str, Any]:
    """The patch, if it is valid for a pod template; otherwise raises ValueError."""
    for key in patch:
        if key not in ("metadata", "spec"):
            raise ValueError(f"{key}: a pod template has metadata and spec; write patch: {{spec: {{…}}}}")
    _check_directives(patch, "")
    return patch


def merged(original: Any, patch: Any) -> Any:
    """The value with the patch applied; neither is changed.

    A null removes a key; `$patch: delete` removes an element of a list, `$patch: replace` a whole mapping.
    """
    if not isinstance(original, dict) or not isinstance(patch, dict) or patch.get("$patch") == "replace":
        return _without_directives(patch)
    result = dict(original)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key in _MERGE_KEYS and isinstance(value, list):
            result[key] = _merged_list(result.get(key, []), value, _MERGE_KEYS[key])
        else:
            result[key] = merged(result.get(key), value)
    return result


def _merged_list(original: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """Elements with the same key merged in place; new ones at the end."""
    result = list(original)
    for element in patch:
        place = next((i for i, old in enumerate(result) if old[merge_key] == element[merge_key]), None)
        if element.get("$patch") == "delete":
            result = [old for i, old in enumerate(result) if i != place]
        elif place is None:
            result.append(_without_directives(element))
        else:
            result[place] = merged(result[place], element)
    return result


def _without_directives(value: Any) -> Any:
    """What a patch adds where nothing exists: the patch without its nulls and directives."""
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if v is not None and k != "$patch"}
    return [_without_directives(item) for item in value] if isinstance(value, list) else value


def _check_directives(value: Any, where: str) -> None:
    if isinstance(value, list):
        merge_key = _MERGE_KEYS.get(where.rpartition(".")[2])
        for index, item in enumerate(value):
            if merge_key is not None and (not isinstance(item, dict) or merge_key not in item):
                raise ValueError(f"{where}[{index}]: {merge_key}, the merge key, is missing")
            _check_directives(item, f"{where}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            known = key == "$patch" and item in ("delete", "replace")
            if str(key).startswith("$") and not known:
                raise ValueError(f"{where}.{key}: expected $patch: delete or $patch: replace")
            _check_directives(item, f"{where}.{key}".lstrip("."))

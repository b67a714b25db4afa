"""Values of a Kubernetes system's options as the API server accepts them: names, labels, quantities, patches.

The API server refuses others only once a job is submitted.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

# Source: kubernetes.io/docs/concepts/overview/working-with-objects, names and labels
LABEL_CHARACTERS, SUBDOMAIN_CHARACTERS = 63, 253
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
# lightkube's parser doesn't fit: manifests are rendered where it isn't installed, it doesn't know `1E3`, and
# a quantity should keep the unit in which the user wrote it
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?\d+)?")
# Source: Kubernetes, community/contributors/devel/sig-api-machinery/strategic-merge-patch.md, and the
# `patchMergeKey` of the fields of k8s.io/api/core/v1
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


def _check_name(text: str, pattern: str, limit: int, expected: str) -> str:
    if len(text) > limit:
        raise ValueError(f"{text!r} has {len(text)} characters; Kubernetes allows at most {limit}")
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"found {text!r}; expected {expected}")
    return text


def check_namespace(name: str) -> str:
    """The name, if a namespace may have it; otherwise raises ValueError."""
    expected = "lowercase letters, digits, and dashes, with a letter or digit first and last"
    return _check_name(name, _LABEL, LABEL_CHARACTERS, expected)


def check_object(name: str) -> str:
    """The name, if a Secret, a node, and most other objects may have it; otherwise raises ValueError."""
    expected = "lowercase letters, digits, dashes, and dots, with a letter or digit next to each dot"
    return _check_name(name, _SUBDOMAIN, SUBDOMAIN_CHARACTERS, expected)


def check_label_value(value: str) -> str:
    """The value, if a label may have it; otherwise raises ValueError."""
    expected = "letters, digits, dashes, dots, and underscores, with a letter or digit first and last"
    return _check_name(value, rf"({_VALUE})?", LABEL_CHARACTERS, expected)


def check_key(key: str) -> str:
    """The key, if a label, an annotation, or a taint may have it; otherwise raises ValueError."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        check_object(prefix)
    expected = "a label's key, like example.com/name"
    _check_name(name, _VALUE, LABEL_CHARACTERS, expected)
    return key


def check_keys(mapping: dict[str, str]) -> dict[str, str]:
    """The mapping, if all of its keys are valid; otherwise raises ValueError."""
    for key in mapping:
        check_key(key)
    return mapping


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    """The labels, if all of them are valid; otherwise raises ValueError."""
    for key, value in check_keys(labels).items():
        try:
            check_label_value(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return labels


NamespaceName = Annotated[str, AfterValidator(check_namespace)]
ObjectName = Annotated[str, AfterValidator(check_object)]
LabelValue = Annotated[str, AfterValidator(check_label_value)]
Key = Annotated[str, AfterValidator(check_key)]
Labels = Annotated[dict[str, str], AfterValidator(check_labels)]


def check_quantity(value: Any) -> str:
    """The quantity as written, perhaps as a number. Raises ValueError if it is not a quantity."""
    text = str(value)
    if _QUANTITY.fullmatch(text) is None:
        raise ValueError(f"found {value!r}; expected a Kubernetes quantity, like 8, 500m, or 64Gi")
    return text


Quantity = Annotated[str, BeforeValidator(check_quantity), WithJsonSchema({"type": ["string", "number"]})]


def quantity_times(text: str, factor: int) -> str:
    """A quantity multiplied, in the unit in which it was written.

    >>> times("1.5Gi", 8), times("500m", 2)
    ('12Gi', '1000m')
    """
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    product = Decimal(match[1]) * factor
    return f"{product.normalize():f}{match[2] or ''}"


def quantity_number(text: str) -> float:
    """A quantity in its base unit: CPUs, bytes, devices.

    >>> number("500m"), number("2Ki"), number("8")
    (0.5, 2048.0, 8.0)
    """
    return float(_exact(text))


def is_whole(text: str) -> bool:
    """Whether a number of CPUs is an integer.

    >>> is_whole("8"), is_whole("2000m"), is_whole("2.5")
    (True, True, False)
    """
    return _exact(text) % 1 == 0


def _exact(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    assert match is not None
    value, unit = Decimal(match[1]), match[2] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1 and unit != "Ei":
        return value.scaleb(int(unit[1:]))
    base = Decimal(1024 if unit.endswith("i") else 1000)
    power = -1 if unit == "m" else " kMGTPE".index(unit[:1].replace("K", "k")) if unit else 0
    return value * base**power


def check_patch(patch: dict[str, Any]) -> dict[str, Any]:
    """The patch, if it is valid for a pod template; otherwise raises ValueError."""
    for key in patch:
        if key not in ("metadata", "spec"):
            raise ValueError(f"{key}: a pod template has metadata and spec; write patch: {{spec: {{…}}}}")
    _check_directives(patch, "")
    return patch


def patched(original: Any, patch: Any) -> Any:
    """The value with a strategic merge patch applied, as `kubectl patch` would; neither is changed.

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
            result[key] = patched(result.get(key), value)
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
            result[place] = patched(result[place], element)
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

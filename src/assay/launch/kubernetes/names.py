"""What Kubernetes accepts as names and labels: the API server refuses others only once a job is submitted.

Source: kubernetes.io/docs/concepts/overview/working-with-objects, names and labels.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

LABEL_CHARACTERS, SUBDOMAIN_CHARACTERS = 63, 253
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"


def _check(text: str, pattern: str, limit: int, expected: str) -> str:
    if len(text) > limit:
        raise ValueError(f"{text!r} has {len(text)} characters; Kubernetes allows at most {limit}")
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"found {text!r}; expected {expected}")
    return text


def check_namespace(name: str) -> str:
    """The name, if a namespace may have it; otherwise raises ValueError."""
    expected = "lowercase letters, digits, and dashes, with a letter or digit first and last"
    return _check(name, _LABEL, LABEL_CHARACTERS, expected)


def check_object(name: str) -> str:
    """The name, if a Secret, a node, and most other objects may have it; otherwise raises ValueError."""
    expected = "lowercase letters, digits, dashes, and dots, with a letter or digit next to each dot"
    return _check(name, _SUBDOMAIN, SUBDOMAIN_CHARACTERS, expected)


def check_label_value(value: str) -> str:
    """The value, if a label may have it; otherwise raises ValueError."""
    expected = "letters, digits, dashes, dots, and underscores, with a letter or digit first and last"
    return _check(value, rf"({_VALUE})?", LABEL_CHARACTERS, expected)


def check_key(key: str) -> str:
    """The key, if a label, an annotation, or a taint may have it; otherwise raises ValueError."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        check_object(prefix)
    expected = "a label's key, like example.com/name"
    _check(name, _VALUE, LABEL_CHARACTERS, expected)
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

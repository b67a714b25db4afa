"""Secrets, found by value and hidden wherever text leaves this process.

Three things reveal a secret: its name (`HF_TOKEN`, `--password`), its shape (`hf_…`, a password in a URL),
and that this process has seen it before under such a name (`learn`). Code that writes what people or programs
read passes it through `text`, or through `redacted` while it is still data with names.
"""

from __future__ import annotations

from typing import Any

from assay.redact.data import parted, redacted, redacted_json, redacted_yaml, secrets_in
from assay.redact.known_secrets import (
    forget,
    forms,
    known_values,
    learn_values,
    secrets_in_text,
    shown_name,
    text,
)
from assay.redact.names import is_secret_name
from assay.redact.shapes import MARK, REDACTED, NumberedMarks, numbered

__all__ = [
    "MARK",
    "REDACTED",
    "NumberedMarks",
    "forget",
    "forms",
    "is_secret_name",
    "known_values",
    "learn",
    "learn_values",
    "numbered",
    "redacted",
    "redacted_json",
    "redacted_yaml",
    "secrets_in",
    "secrets_in_text",
    "shown_name",
    "text",
]


def learn(data: Any) -> Any:
    """The data without its secrets, which are known from then on."""
    clean, secrets = parted(data)
    learn_values(secrets)
    return clean

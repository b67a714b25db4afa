"""Secrets, found by value and hidden wherever text leaves this process.

Three things reveal a secret: its name (`HF_TOKEN`, `--password`), its shape (`hf_…`, a password in a URL),
and that this process has seen it before under such a name (`learn`). Code that writes what people or programs
read passes it through `text`, or through `redacted` while it is still data with names.
"""

from __future__ import annotations

from typing import Any

from assay.redact.data import parted
from assay.redact.data import redacted as redacted
from assay.redact.data import redacted_json as redacted_json
from assay.redact.data import redacted_yaml as redacted_yaml
from assay.redact.data import secrets_in as secrets_in
from assay.redact.known_secrets import forget as forget
from assay.redact.known_secrets import forms as forms
from assay.redact.known_secrets import known_values as known_values
from assay.redact.known_secrets import learn_values as learn_values
from assay.redact.known_secrets import secrets_in_text as secrets_in_text
from assay.redact.known_secrets import shown_name as shown_name
from assay.redact.known_secrets import text as text
from assay.redact.names import is_secret_name as is_secret_name
from assay.redact.shapes import MARK as MARK
from assay.redact.shapes import REDACTED as REDACTED
from assay.redact.shapes import NumberedMarks as NumberedMarks
from assay.redact.shapes import numbered as numbered


def learn(data: Any) -> Any:
    """The data without its secrets, which are known from then on."""
    clean, secrets = parted(data)
    learn_values(secrets)
    return clean

"""What identifies an imported file: its bytes."""

from __future__ import annotations

from pathlib import Path

from assay import durable
from assay.errors import InputError


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes. Raises InputError if it can't be read."""
    try:
        return durable.sha256(path)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error

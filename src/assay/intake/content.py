"""What tells a file that is taken in from another: its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from assay.errors import InputError


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes. Raises InputError where it can't be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error

"""What another package imports to add something to Assay, by kind; docs/how-to/plugins.md shows how.

Names that are here stay, and mean the same, as long as `INTERFACE` is the same.
"""

from __future__ import annotations

from assay.errors import AssayError, HostError, InputError
from assay.registry import INTERFACE

__all__ = ["INTERFACE", "AssayError", "HostError", "InputError"]

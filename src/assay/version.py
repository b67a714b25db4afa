"""The version of Assay; apart from the package, whose names lead to everything else."""

from __future__ import annotations

__version__ = "0.1.0"

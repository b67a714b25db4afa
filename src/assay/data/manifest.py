"""Manifests of chosen frames as files: `assay_payloads.datasets.manifest` has their form."""

from __future__ import annotations

from pathlib import Path

from assay.durable import deliver
from assay.errors import InputError, Problem
from assay.inputs import unreadable
from assay_payloads.datasets.manifest import ChosenFrame, Manifest, ManifestError, made, parsed, text

__all__ = ["ChosenFrame", "Manifest", "made", "read", "write"]


def write(path: Path, manifest: Manifest) -> None:
    """Write it whole, or not at all. Raises HostError if that fails."""
    deliver(path, text(manifest).encode(), option="--manifest")


def read(path: Path) -> Manifest:
    """A manifest. Raises InputError if it is damaged, or names a file outside the data set."""
    try:
        return parsed(path)
    except ManifestError as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise InputError([Problem(where, error.what)]) from None
    except OSError as error:
        raise unreadable(path, error) from error

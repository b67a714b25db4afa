"""Where a runs directory keeps what concerns stacks: `RUNS/.stacks/`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = ".stacks"  # no suite has such a name


def knowledge_file(runs_dir: Path) -> Path:
    """Every observation; rebuilt if it is deleted."""
    return runs_dir / _FOLDER / "knowledge.duckdb"


def failures(runs_dir: Path) -> Path:
    """Failures that no run directory holds, a file each."""
    return runs_dir / _FOLDER / "failures"


def bundles(runs_dir: Path) -> Path:
    """Bundles that were imported, unchanged, a file each."""
    return runs_dir / _FOLDER / "bundles"


def has_more_than_runs(runs_dir: Path) -> bool:
    """Whether there are observations besides those of runs."""
    return failures(runs_dir).is_dir() or bundles(runs_dir).is_dir()


def trusted_keys(runs_dir: Path) -> Path:
    """The keys whose bundles are believed."""
    return runs_dir / _FOLDER / "trusted-keys.json"


def own_key(runs_dir: Path) -> Path:
    """The key that signs this directory's bundles; private."""
    return runs_dir / _FOLDER / "signing-key.pem"


def explorations(runs_dir: Path) -> Path:
    """What explorations tried and built, a folder each; their measurements are in sessions."""
    return runs_dir / _FOLDER / "explorations"


def bisections(runs_dir: Path) -> Path:
    """What bisections built, a folder each; their measurements are in sessions."""
    return runs_dir / _FOLDER / "bisections"

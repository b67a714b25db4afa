"""`assay data … --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assay.data.checking import DataCheck
from assay.data.manifest import Manifest
from assay.data.queries import ClassShare, SceneDrift, SqlAnswer
from assay.data.scanning import Scan
from assay_payloads.datasets.staged_files import Staging
from assay_payloads.datasets.staging_cache import CachedSet


def scan_document(scan: Scan, damaged: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What a scan did, and every damaged frame of the catalog."""
    return {**asdict(scan), "damaged_frames": [{"label": label, "why": why} for label, why in damaged]}


def manifest_document(manifest: Manifest) -> dict[str, Any]:
    """Chosen frames."""
    return {**asdict(manifest), "bytes": manifest.bytes}


def answer_document(answer: SqlAnswer) -> dict[str, Any]:
    """Rows as they are, other values than numbers as text."""
    plain = (str, int, float, bool, type(None))
    rows = [[value if isinstance(value, plain) else str(value) for value in row] for row in answer.rows]
    return {"columns": list(answer.columns), "rows": rows}


def shares_document(count: int, shares: Sequence[ClassShare]) -> dict[str, Any]:
    """Classes over frames."""
    return {"frames": count, "classes": [asdict(share) for share in shares]}


def drift_document(drifts: Sequence[SceneDrift]) -> dict[str, Any]:
    """Scenes, the farthest first."""
    return {"scenes": [asdict(drift) for drift in drifts]}


def staging_document(done: Staging) -> dict[str, Any]:
    """What a staging did."""
    return asdict(done)


def sets_document(sets: Sequence[CachedSet]) -> dict[str, Any]:
    """What is in a cache."""
    return {
        "sets": [asdict(cached_set) for cached_set in sets],
        "bytes": sum(cached_set.bytes for cached_set in sets),
    }


def check_document(check: DataCheck) -> dict[str, Any]:
    """What a check found."""
    return asdict(check)

"""Frames that trials read from a cache on each node: where a manifest's set lies there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from assay.data.manifest import read
from assay.records import StagedData
from assay_payloads.datasets.staging_cache import hold_path, set_name


def staged_data(
    manifest: Path,
    cache: str,
    *,
    mode: Literal["local", "through"],
    space_bytes: int | None,
    timeout_s: float,
) -> StagedData:
    """The set of a manifest's frames in a cache. Raises InputError if the manifest is damaged."""
    chosen = read(manifest)
    name = set_name(chosen)
    return StagedData(
        manifest=str(manifest),
        digest=chosen.digest,
        frames=len(chosen.frames),
        bytes=chosen.bytes,
        root=chosen.root,
        mode=mode,
        cache=cache,
        directory=str(Path(cache, name)),
        hold=str(hold_path(Path(cache), name)),
        space_bytes=space_bytes,
        timeout_s=timeout_s,
    )

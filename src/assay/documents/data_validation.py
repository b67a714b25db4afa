"""`assay data validate --json`, and a validation's result.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.data.validation import Validation


def validation_document(found: Validation) -> dict[str, Any]:
    """A validation; what isn't defined is null."""
    names = found.about.names
    groups = [{**asdict(group), "ious": dict(zip(names, group.ious, strict=True))} for group in found.groups]
    unreadable = [{"label": label, "why": why} for label, why in found.unreadable_frames]
    return {**asdict(found), "groups": groups, "unreadable_frames": unreadable}

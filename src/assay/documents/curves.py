"""Scaling curves, as `assay scale --json` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.scale import ScalingCurves


def document(curves: ScalingCurves) -> dict[str, Any]:
    """The curves, and each again with its conclusions."""
    plain = to_plain(curves.studies)
    return {
        "schema": "assay.scale/1",
        "curves": [study.pop("curve") for study in plain],
        "studies": plain,
    }

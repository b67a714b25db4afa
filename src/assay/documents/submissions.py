"""`assay submit --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.submission.description import missing

if TYPE_CHECKING:
    from assay.questions.submit import Submission


def document(submission: Submission, round_: str) -> dict[str, Any]:
    """The document, as its schema describes it."""
    folder = submission.folder
    return {
        "schema": "assay.submission/1",
        "folder": str(folder.path),
        "round": round_,
        "sets": [
            {"system": e.system, "benchmark": e.benchmark, "runs": len(e.files)} for e in folder.entries
        ],
        "systems": [
            {
                "system": d.system,
                "file": str(d.path),
                "missing": missing(d.fields),
                "differing": dict(d.differing),
            }
            for d in folder.descriptions
        ],
        "without_code": list(folder.without_code),
        "findings": [{"error": f.error, "text": f.text, "remedy": f.remedy} for f in submission.findings],
    }

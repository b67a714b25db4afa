"""`assay data submit --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay import redact

if TYPE_CHECKING:
    from assay.questions.data_job import DataJob


def document(job: DataJob) -> dict[str, Any]:
    """What was chosen, the frames that it means now, and the suite that it becomes, without secrets."""
    filled, manifest = job.filled, job.manifest
    return {
        "template": job.template.content.template,
        "labels": [asdict(choice) for choice in filled.labels],
        "params": [asdict(choice) for choice in filled.params],
        "where": filled.where,
        "frames": {
            "number": len(manifest.frames),
            "of": job.of,
            "bytes": manifest.bytes,
            "digest": manifest.digest,
            "query": manifest.query,
        },
        "system": filled.system,
        "shape": filled.shape,
        "suite": redact.redacted(filled.suite.data),
    }

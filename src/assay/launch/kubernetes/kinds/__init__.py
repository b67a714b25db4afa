"""One file a job kind; here only which there are."""

from __future__ import annotations

from assay.launch.kubernetes.kinds import job, pod
from assay.launch.kubernetes.kinds.kind import Ending, JobRef, Kind

__all__ = ["KINDS", "Ending", "JobRef", "Kind"]

KINDS: dict[str, Kind] = {kind.name: kind for kind in (pod.KIND, job.KIND)}

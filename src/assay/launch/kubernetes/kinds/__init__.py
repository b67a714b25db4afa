"""One file per job kind; this module only lists them."""

from __future__ import annotations

from assay.launch.kubernetes.kinds.job import KIND as JOB
from assay.launch.kubernetes.kinds.jobset import KIND as JOBSET
from assay.launch.kubernetes.kinds.kind import Ending, JobKind, JobRef
from assay.launch.kubernetes.kinds.mpijob import KIND as MPIJOB
from assay.launch.kubernetes.kinds.pod import KIND as POD
from assay.launch.kubernetes.kinds.pytorchjob import KIND as PYTORCHJOB
from assay.launch.kubernetes.kinds.trainjob import KIND as TRAINJOB

__all__ = ["KINDS", "Ending", "JobKind", "JobRef"]

KINDS: dict[str, JobKind] = {kind.name: kind for kind in (POD, JOB, MPIJOB, JOBSET, TRAINJOB, PYTORCHJOB)}

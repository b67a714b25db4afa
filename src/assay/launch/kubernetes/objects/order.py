"""The input of a job kind: a job, the system's options, and the names of its objects."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job

Manifest = dict[str, Any]
"""An object for the API server: plain data for JSON and YAML."""

LABEL_TOKEN = "assay.dev/token"  # noqa: S105  (a label's name)
LABEL_ROLE = "assay.dev/role"
ANNOTATION_TRIAL = "assay.dev/trial"
MANAGED_BY = {"app.kubernetes.io/managed-by": "assay"}
NAME_CHARACTERS = 20  # of the token; operators append to names, which must stay below 63
TOKEN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")  # what a label's value may be
MEETING_PORT = 29500  # torchrun's
HOST_PORTS = range(20000, 30000)  # below the ports that Linux assigns


def name_of(token: str) -> str:
    """The name of a token's job object and of everything that belongs to it.

    >>> name_of("0F3A6B0C9D8E4F52A1B2C3D4E5F60718")
    'assay-0f3a6b0c9d8e4f52a1b2'
    """
    return f"assay-{re.sub(r'[^a-z0-9-]', '-', token.lower())[:NAME_CHARACTERS].rstrip('-')}"


def labels_of(token: str) -> dict[str, str]:
    """Labels of every object of a job."""
    return {LABEL_TOKEN: token, **MANAGED_BY}


def labels_of_ranks(token: str) -> dict[str, str]:
    """Labels that only pods with ranks have."""
    return {LABEL_TOKEN: token, LABEL_ROLE: "ranks"}


@dataclass(frozen=True)
class Order:
    """One job, as a kind renders it.

    volumes  the pod's volumes that hold the files sent with the job
    """

    job: Job
    options: KubernetesSystem
    volumes: tuple[Manifest, ...]

    @property
    def name(self) -> str:
        """Name of the job object and of its Service, and prefix of its pods' names."""
        return name_of(self.job.token)

    @property
    def workers(self) -> int:
        """Number of pods that run ranks."""
        return self.job.shape.workers

    @property
    def meeting_port(self) -> int:
        """Port where rank 0 listens; on the nodes' network, one that no other job is likely to use."""
        if not self.options.hostNetwork:
            return MEETING_PORT
        digest = hashlib.sha256(self.job.token.encode()).digest()
        return HOST_PORTS[int.from_bytes(digest[:4], "big") % len(HOST_PORTS)]

    def metadata(self) -> Manifest:
        """Name, namespace, labels, and annotations of an object of this job."""
        return {
            "name": self.name,
            **({"namespace": self.options.namespace} if self.options.namespace else {}),
            "labels": {**self.options.labels, **labels_of(self.job.token)},
            "annotations": {**self.options.annotations, ANNOTATION_TRIAL: self.job.trial_id},
        }
